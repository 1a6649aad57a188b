"""fairseq criterions; importing this package registers them."""

from ..errors import require

require("fairseq", extra="fairseq")

from . import electra_criterion, label_smoothed_true_neg, masked_lm_true_neg  # noqa: E402, F401
