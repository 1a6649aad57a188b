"""fairseq criterions; importing this package registers them."""

from .electra import Electra
from .masked_lm_true_neg import (
    MaskedLmHardCorrection,
    MaskedLmSentenceRegularization,
    MaskedLmTrueNeg,
    MaskedLmWordRegularization,
)

__all__ = [
    "Electra",
    "MaskedLmHardCorrection",
    "MaskedLmSentenceRegularization",
    "MaskedLmTrueNeg",
    "MaskedLmWordRegularization",
]
