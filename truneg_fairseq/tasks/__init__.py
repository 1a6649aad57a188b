"""fairseq tasks; importing this package registers them."""

from .electra_pretraining import ElectraPretrainingTask
from .squad import SquadTask

__all__ = ["ElectraPretrainingTask", "SquadTask"]
