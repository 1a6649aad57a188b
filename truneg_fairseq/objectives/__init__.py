"""The mathematics of true-negative training: tensors in, losses and counts out. No fairseq here."""

from .corpus_targets import CorpusTargets
from .electra import sample_tokens
from .false_negatives import Detector, find_false_negatives, pair_keys
from .loop import TrueNegativeLoss
from .loss import Objective, Outcome, UpdateSize
from .options import ElectraOptions, TrueNegativeOptions
from .passes import EncoderPasses, MaskedPredictions, fill, gather_rows
from .soft_targets import SynonymLists

__all__ = [
    "CorpusTargets",
    "Detector",
    "ElectraOptions",
    "EncoderPasses",
    "MaskedPredictions",
    "Objective",
    "Outcome",
    "SynonymLists",
    "TrueNegativeLoss",
    "TrueNegativeOptions",
    "UpdateSize",
    "fill",
    "find_false_negatives",
    "gather_rows",
    "pair_keys",
    "sample_tokens",
]
