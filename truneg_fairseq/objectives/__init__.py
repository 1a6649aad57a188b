"""The mathematics of true-negative training: tensors in, losses and counts out. No fairseq here."""

from .corpus_targets import CorpusTargets
from .detectors import Detector, Exclusions
from .hard_correction import corrected_predictions, pair_keys
from .passes import EncoderPasses, Passes
from .predictions import MaskedPredictions, fill
from .replaced_tokens import sample_tokens
from .settings import ObjectiveSettings
from .soft_targets import SynonymLists
from .true_negatives import Outcome, TrueNegativeObjective, UpdateSize

__all__ = [
    "CorpusTargets",
    "Detector",
    "EncoderPasses",
    "Exclusions",
    "MaskedPredictions",
    "ObjectiveSettings",
    "Outcome",
    "Passes",
    "SynonymLists",
    "TrueNegativeObjective",
    "UpdateSize",
    "corrected_predictions",
    "fill",
    "pair_keys",
    "sample_tokens",
]
