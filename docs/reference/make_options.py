"""Writes options.md from the code: python docs/reference/make_options.py

Every option of the criterions, of transformers' arguments and of the commands, with its default and its range.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from truneg_fairseq import register
from truneg_fairseq.commands.main import COMMANDS
from truneg_fairseq.flags import flag_of

PAGE = Path(__file__).with_name("options.md")
LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
CRITERIONS = ("masked_lm_true_neg", "electra", "label_smoothed_true_neg")
HEAD = """# Options

Made from the code by `python docs/reference/make_options.py`; a test compares the two. What the objectives are:
[method.md](../explain/method.md).

A criterion's options are flags of fairseq-train and, with `_` for `-`, keys of hydra (`+criterion.hc_weight=1`).
Those of `masked_lm_true_neg` are also arguments of transformers' `TrueNegativeArguments` and keywords of
`TrueNegativeLoss`, those of `electra` arguments of `ElectraArguments`.

`masked_lm_hc`, `masked_lm_sr_word` and `masked_lm_sr_sent` have the options of `masked_lm_true_neg`, with a weight of 1
for what they are called after. An option that another one leaves without a use, such as `--hc-threshold` with the
detector `table`, changes nothing and is not an error.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_criterions(), *_commands()]).rstrip() + "\n"


def _criterions() -> Iterator[str]:
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY

    register()
    first: list[str] = []
    for name in CRITERIONS:
        rows = list(_rows(CRITERION_DATACLASS_REGISTRY[name]))
        shared = [row for row in rows if row in first]
        named = "all its options" if len(shared) == len(first) else _flags(shared)
        said = f"As `{CRITERIONS[0]}`: {named}." if shared else ""
        yield from _section(f"--criterion {name}", said, [row for row in rows if row not in first])
        first = first or rows


def _commands() -> Iterator[str]:
    """A section for what several commands have, then one for each command, under the shorter of its names."""
    shortest: dict[Any, str] = {}
    for path, command in _named("truneg", COMMANDS):
        shortest[command] = min(shortest.get(command, path), path, key=lambda name: name.count(" "))
    rows_of = {command: list(_rows(_options(command))) for command in shortest}
    times = Counter(row for rows in rows_of.values() for row in rows)
    shared = [row for row, count in times.items() if count > 1]
    yield from _section("Options of several commands", "", shared, code=False)
    for command, path in shortest.items():
        said = inspect.cleandoc(command.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        also = [row for row in rows_of[command] if row in shared]
        said = f"{said} Also {_flags(also)} (above).".lstrip() if also else said
        yield from _section(path, said, [row for row in rows_of[command] if row not in shared])


def _options(command: Any) -> Any:
    (parameter,) = inspect.signature(command).parameters
    return get_type_hints(command)[parameter]


def _flags(rows: list[str]) -> str:
    return ", ".join(row.split(" | ")[0].removeprefix("| ") for row in rows)


def _named(path: str, commands: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, command in commands.items():
        if isinstance(command, Mapping):
            yield from _named(f"{path} {name}", command)
        elif name:
            yield f"{path} {name}", command


def _section(title: str, said: str, rows: list[str], *, code: bool = True) -> Iterator[str]:
    yield f"## `{title}`\n" if code else f"## {title}\n"
    yield from [f"{said}\n"] if said else []
    yield from ["| option | default | range | |", "|---|---|---|---|", *rows, ""] if rows else []


def _rows(kind: Any) -> Iterator[str]:
    for each in fields(kind):
        text = str(each.metadata.get("help") or "")
        if text:
            default = each.default if each.default_factory is MISSING else each.default_factory()
            limits = [f"{sign} {each.metadata[key]}" for key, sign in LIMITS.items() if key in each.metadata]
            allowed = ", ".join(map(str, each.metadata.get("choices") or ())) or " and ".join(limits)
            shown = "required" if default is MISSING else _shown(default)
            flag = each.name.upper() if each.metadata.get("positional") else flag_of(each.name)
            yield f"| `{flag}` | {shown} | {allowed} | {text.replace('|', '&#124;')} |"


def _shown(default: Any) -> str:
    if default is None or isinstance(default, bool):
        return "on" if default else ""
    return " ".join(map(str, default)) if isinstance(default, list | tuple) else str(getattr(default, "value", default))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
