"""``truneg options``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from ..errors import TrueNegError
from ..options import flag_of, option, range_of
from .output import JsonOutput, print_unless_json, write_json

_WIDTH = 100
TRANSFORMERS = "transformers"


@dataclass(kw_only=True)
class CriterionOptions(JsonOutput):
    criterion: str = option(
        help="such as masked_lm_true_neg; 'transformers' for the arguments of TrueNegativeArguments",
        positional=True,
        metavar="CRITERION",
    )
    format: str = option("terminal", "how the options are written", choices=("terminal", "markdown"))


def options(options: CriterionOptions) -> None:
    """Print the options of a criterion: what each does, its range and its default.

    They are flags of fairseq-train, keys of hydra with _ for -, and arguments of TrueNegativeArguments.
    """
    found = list(_declared(_kind(options.criterion)))
    say = print_unless_json(options)
    if options.format == "markdown":
        from ..comparison.tables import Table, markdown

        rows = [(f"`{flag_of(each['name'])}`", each["default"], each["range"], each["help"]) for each in found]
        say("\n".join(markdown(Table(options.criterion, ("option", "default", "range", "what it does"), tuple(rows)))))
    else:
        for each in found:
            range_ = f"; {each['range']}" if each["range"] else ""
            say(f"{flag_of(each['name'])}  (default: {each['default']}{range_})")
            say(textwrap.fill(each["help"], _WIDTH, initial_indent="    ", subsequent_indent="    "))
    write_json(options, found)


def _kind(criterion: str) -> Any:
    """The dataclass of a criterion's options."""
    if criterion == TRANSFORMERS:
        from ..hf.arguments import TrueNegativeArguments

        return TrueNegativeArguments
    from ..extras import require

    require("fairseq", extra="fairseq")
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY

    from .. import register

    register()
    package = __name__.partition(".")[0]
    ours = [name for name, kind in CRITERION_DATACLASS_REGISTRY.items() if kind.__module__.startswith(package)]
    if criterion not in ours:
        raise TrueNegError(f"{criterion}: expected one of {', '.join([*ours, TRANSFORMERS])}")
    return CRITERION_DATACLASS_REGISTRY[criterion]


def _declared(kind: Any) -> Iterator[dict[str, str]]:
    for each in fields(kind):
        text = str(each.metadata.get("help") or "")
        if text:
            yield {"name": each.name, "default": str(each.default), "range": range_of(each), "help": text}
