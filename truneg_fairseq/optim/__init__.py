"""Optimizer and schedule of ELECTRA. The mathematics needs torch only; :mod:`.adapters` registers it with fairseq."""

from .adam import ElectraAdam
from .parameter_groups import tag_parameters
from .schedule import electra_linear

__all__ = ["ElectraAdam", "electra_linear", "tag_parameters"]
