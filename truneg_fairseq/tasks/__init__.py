"""fairseq tasks of pre-training; importing this package registers them."""

from .electra_pretraining import ElectraPretrainingTask

__all__ = ["ElectraPretrainingTask"]
