"""Writes options.md from the code: python docs/reference/make_options.py

Every option of the criterions, of transformers' arguments and of the commands, with its default and its range.
"""

from __future__ import annotations

import inspect
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
        has_all = bool(first) and set(first) <= set(rows)
        said = f"Beside those of `{CRITERIONS[0]}`:" if has_all else ""
        yield from _section(f"--criterion {name}", said, [row for row in rows if not (has_all and row in first)])
        first = first or rows


def _commands() -> Iterator[str]:
    """A section for each command, under the shorter of its names."""
    shortest: dict[Any, str] = {}
    for path, command in _named("truneg", COMMANDS):
        shortest[command] = min(shortest.get(command, path), path, key=lambda name: name.count(" "))
    for command, path in shortest.items():
        (parameter,) = inspect.signature(command).parameters
        said = inspect.cleandoc(command.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        yield from _section(path, said, list(_rows(get_type_hints(command)[parameter])))


def _named(path: str, commands: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, command in commands.items():
        if isinstance(command, Mapping):
            yield from _named(f"{path} {name}", command)
        elif name:
            yield f"{path} {name}", command


def _section(title: str, said: str, rows: list[str]) -> Iterator[str]:
    yield f"## `{title}`\n"
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
