"""The mathematics of true-negative training: tensors in, losses and counts out. No fairseq here."""

from .alternatives import Alternatives
from .build import Setting
from .corpus_targets import CorpusTargets
from .false_negatives import Detector
from .loop import TrueNegativeLoss
from .loss import Objective, Outcome, UpdateSize
from .options import ElectraOptions, TrueNegativeOptions
from .passes import EncoderPasses, MaskedPredictions, fill, gather_rows
from .replaced_tokens import sample_tokens
from .terms import Term
from .token_lists import TokenLists

__all__ = [
    "Alternatives",
    "CorpusTargets",
    "Detector",
    "ElectraOptions",
    "EncoderPasses",
    "MaskedPredictions",
    "Objective",
    "Outcome",
    "Setting",
    "Term",
    "TokenLists",
    "TrueNegativeLoss",
    "TrueNegativeOptions",
    "UpdateSize",
    "fill",
    "gather_rows",
    "sample_tokens",
]
