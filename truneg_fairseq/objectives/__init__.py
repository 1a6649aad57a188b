"""The mathematics of true-negative training: tensors in, losses and counts out. No fairseq here."""

from .corpus_targets import CorpusTargets
from .cross_entropy import MaskedCrossEntropy, masked_cross_entropy
from .detectors import Detector, Exclusions
from .hard_correction import corrected_predictions, mark_whole_words, pair_keys
from .passes import EncoderPasses, Passes
from .predictions import MaskedPredictions, fill
from .replaced_tokens import Detection, detection_sums, sample_tokens
from .settings import ObjectiveSettings
from .soft_regularization import sentence_divergence_sum, word_distance_sum
from .soft_targets import SoftTargets, SynonymLists, soft_cross_entropy
from .true_negatives import Outcome, TrueNegativeObjective, UpdateSize

__all__ = [
    "CorpusTargets",
    "Detection",
    "Detector",
    "EncoderPasses",
    "Exclusions",
    "MaskedCrossEntropy",
    "MaskedPredictions",
    "ObjectiveSettings",
    "Outcome",
    "Passes",
    "SoftTargets",
    "SynonymLists",
    "TrueNegativeObjective",
    "UpdateSize",
    "corrected_predictions",
    "detection_sums",
    "fill",
    "mark_whole_words",
    "masked_cross_entropy",
    "pair_keys",
    "sample_tokens",
    "sentence_divergence_sum",
    "soft_cross_entropy",
    "word_distance_sum",
]
