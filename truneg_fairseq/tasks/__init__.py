"""fairseq tasks; importing this package registers them."""

from .electra_pretraining import ElectraPretrainingTask
from .glue import GlueTask
from .squad import SquadTask

__all__ = ["ElectraPretrainingTask", "GlueTask", "SquadTask"]
