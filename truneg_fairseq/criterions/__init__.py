"""fairseq criterions; importing this package registers them."""

from ..extras import require

require("fairseq", extra="fairseq")

from .electra import Electra  # noqa: E402
from .masked_lm_true_neg import (  # noqa: E402
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
