"""The mathematics of true-negative training: tensors in, losses and counts out. No fairseq here."""

from .cross_entropy import MaskedCrossEntropy, masked_cross_entropy
from .hard_correction import corrected_predictions, mark_whole_words, pair_keys
from .replaced_tokens import Detection, detection_sums, sample_tokens
from .soft_regularization import sentence_divergence_sum, word_distance_sum

__all__ = [
    "Detection",
    "MaskedCrossEntropy",
    "corrected_predictions",
    "detection_sums",
    "mark_whole_words",
    "masked_cross_entropy",
    "pair_keys",
    "sample_tokens",
    "sentence_divergence_sum",
    "word_distance_sum",
]
