"""``truneg options``."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, fields
from typing import Any

from ..errors import TrueNegError
from ..options import flag_of, option, range_of

_WIDTH = 100
TRANSFORMERS = "transformers"


@dataclass(kw_only=True)
class CriterionOptions:
    criterion: str = option(
        help="such as masked_lm_true_neg; 'transformers' for the arguments of TrueNegativeArguments",
        positional=True,
        metavar="CRITERION",
    )


def options(options: CriterionOptions) -> None:
    """Print the options of a criterion: what each does, its range and its default.

    They are flags of fairseq-train, keys of hydra with _ for -, and arguments of TrueNegativeArguments.
    """
    for each in fields(_kind(options.criterion)):
        if text := str(each.metadata.get("help") or ""):
            range_ = f"; {found}" if (found := range_of(each)) else ""
            print(f"{flag_of(each.name)}  (default: {each.default}{range_})")
            print(textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    "))


def _kind(criterion: str) -> Any:
    """The dataclass of a criterion's options."""
    if criterion == TRANSFORMERS:
        from ..hf.arguments import TrueNegativeArguments

        return TrueNegativeArguments
    from ..errors import require

    require("fairseq", extra="fairseq")
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY

    from .. import register

    register()
    package = __name__.partition(".")[0]
    ours = [name for name, kind in CRITERION_DATACLASS_REGISTRY.items() if kind.__module__.startswith(package)]
    if criterion not in ours:
        raise TrueNegError(f"{criterion}: expected one of {', '.join([*ours, TRANSFORMERS])}")
    return CRITERION_DATACLASS_REGISTRY[criterion]
