"""fairseq criterions; importing this package registers them."""

from .masked_lm_true_neg import (
    MaskedLmHardCorrection,
    MaskedLmSentenceRegularization,
    MaskedLmTrueNeg,
    MaskedLmWordRegularization,
)

__all__ = [
    "MaskedLmHardCorrection",
    "MaskedLmSentenceRegularization",
    "MaskedLmTrueNeg",
    "MaskedLmWordRegularization",
]
