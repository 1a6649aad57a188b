"""The options of the criterions beside those of fairseq: one namespace on its command line."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.options import get_training_parser
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import truneg_fairseq

truneg_fairseq.register()


def test_no_option_has_the_name_of_one_of_fairseqs():
    """Of two options of one name fairseq's parser keeps one, and gives its value to both."""
    kinds = [*TASK_DATACLASS_REGISTRY.values(), *MODEL_DATACLASS_REGISTRY.values()]
    kinds += [kind for each in REGISTRIES.values() for kind in each["dataclass_registry"].values()]
    kinds += [each.default for each in fields(FairseqConfig) if is_dataclass(each.default)]
    theirs = {each.name for kind in kinds if kind.__module__.startswith("fairseq.") for each in fields(kind)}
    parser = get_training_parser()
    RobertaModel.add_args(parser)
    theirs |= {action.dest for action in parser._actions}
    for kind in CRITERION_DATACLASS_REGISTRY.values():
        if kind.__module__.startswith("truneg_fairseq."):
            stock = {each.name for each in fields(kind.__bases__[0])}
            assert not ({each.name for each in fields(kind)} - stock) & theirs, kind
