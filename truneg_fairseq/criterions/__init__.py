"""fairseq criterions; importing this package registers them."""

from .electra import Electra
from .masked_lm_true_neg import (
    MaskedLmHardCorrection,
    MaskedLmSentenceRegularization,
    MaskedLmTrueNeg,
    MaskedLmWordRegularization,
)
from .sentence_metrics import SentencePredictionMetrics
from .squad import SquadCriterion

__all__ = [
    "Electra",
    "MaskedLmHardCorrection",
    "MaskedLmSentenceRegularization",
    "MaskedLmTrueNeg",
    "MaskedLmWordRegularization",
    "SentencePredictionMetrics",
    "SquadCriterion",
]
