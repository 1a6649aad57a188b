"""fairseq tasks of pre-training; importing this package registers them."""

from ..errors import require

require("fairseq", extra="fairseq")

from .electra_pretraining import ElectraPretrainingTask  # noqa: E402

__all__ = ["ElectraPretrainingTask"]
