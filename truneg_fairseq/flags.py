"""Options: the field of a dataclass declares a flag once, with its help and its range.

The same field is a flag of ``truneg``, a flag of fairseq-train and a key of hydra (fairseq reads ``help`` and
``choices`` from the metadata), and an argument of transformers' ``HfArgumentParser``. :func:`check` is the one place
that compares values with ranges.
"""

from __future__ import annotations

import argparse
import math
import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import TrueNegError

T = TypeVar("T")

_LIMITS = {"gt": (">", operator.gt), "ge": (">=", operator.ge), "lt": ("<", operator.lt), "le": ("<=", operator.le)}


class _Metadata(dict[str, Any]):
    """A field's metadata that shows only what argparse knows to those who list it."""

    def keys(self) -> Any:
        # HfArgumentParser hands every key that is listed to add_argument.
        return [key for key in self if key in ("help", "choices", "metavar")]


def option(
    default: Any = MISSING,
    help: str = "",
    *,
    default_factory: Any = MISSING,
    choices: Sequence[Any] | None = None,
    metavar: str | None = None,
    positional: bool = False,
    once: bool = False,
    **limits: float,
) -> Any:
    """A dataclass field that is an option; without a default the flag is required.

    ``help`` is for ``--help`` and the documentation's tables, ``metavar`` how ``--help`` calls the value. What is
    ``positional`` has no flag; of what is given twice the last counts, unless it is allowed ``once``. The limits are
    ``gt``, ``ge``, ``lt`` and ``le``; of every item of a list.
    """
    if unknown := limits.keys() - _LIMITS.keys():
        raise TypeError(f"option() has no limit {min(unknown)!r}")
    others = {"choices": choices, "metavar": metavar, "positional": positional or None, "once": once or None}
    metadata = _Metadata(help=help, **limits, **{key: value for key, value in others.items() if value is not None})
    return field(default=default, default_factory=default_factory, metadata=metadata)


def user_dir_option() -> Any:
    """The field ``user_dir``, of each command that reads names of ideas; it is imported before the command begins."""
    text = "folder of your own ideas to import: sources of alternatives, yardsticks, fine-tuning tasks ..."
    return option(None, text, metavar="DIR", once=True)


def flag_of(name: str) -> str:
    """The flag of a field: ``--hc-weight`` of ``hc_weight``."""
    return f"--{name.replace('_', '-')}"


def check(options: Any, *, flags: Callable[[str], str] = flag_of) -> None:
    """Compares the fields of a dataclass with the ranges and choices that they declare; None is always allowed.

    ``flags`` tells how a field is called where its value was given, for the message.
    """
    for each in fields(options):
        value, choices = getattr(options, each.name), each.metadata.get("choices")
        limits = [(*_LIMITS[key], each.metadata[key]) for key in _LIMITS if key in each.metadata]
        for item in value if isinstance(value, list | tuple) else (value,):
            finite = not isinstance(item, float) or math.isfinite(item)
            fits = finite and (choices is None or item in choices)
            if item is None or (fits and all(holds(item, limit) for _, holds, limit in limits)):
                continue
            number = f"a {'finite ' if isinstance(item, float) else ''}number " if choices is None else ""
            raise TrueNegError(f"{flags(each.name)} {item}: expected {f'{number}{range_of(each)}'.rstrip()}")


def range_of(declared: Field[Any]) -> str:
    """What an option allows, in words: its choices or its limits; "" without any."""
    if "choices" in declared.metadata:
        return " or ".join(map(str, declared.metadata["choices"]))
    return " and ".join(
        f"{sign} {declared.metadata[key]}" for key, (sign, _) in _LIMITS.items() if key in declared.metadata
    )


def add_arguments(parser: argparse.ArgumentParser, options: type[Any]) -> None:
    """Adds an argument for each field of a dataclass of options."""
    hints = get_type_hints(options)
    for declared in fields(options):
        default = declared.default if declared.default_factory is MISSING else declared.default_factory()
        required = default is MISSING
        kind, several = _value_type(hints[declared.name])
        text = str(declared.metadata.get("help", "")).replace("%", "%%")
        if not required and default not in (None, False, [], ()) and "(default" not in text:
            text = f"{text} (default: {default})"
        settings: dict[str, Any] = {"help": text, "default": None}  # from_arguments() knows the defaults
        if kind is bool:
            settings["action"] = "store_true"
        else:
            settings |= {"type": kind, "choices": declared.metadata.get("choices")}
            if settings["choices"] is None:
                settings["metavar"] = declared.metadata.get("metavar", {Path: "PATH", int: "N"}.get(kind))
        if declared.metadata.get("positional"):
            settings["nargs"] = ("+" if required else "*") if several else (None if required else "?")
            parser.add_argument(declared.name, **settings)
        else:
            settings |= {"nargs": "+", "action": "extend"} if several else {}
            settings |= {"action": _Once} if declared.metadata.get("once") else {}
            parser.add_argument(flag_of(declared.name), dest=declared.name, required=required, **settings)


class _Once(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, value: Any, flag: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{flag}: found {getattr(namespace, self.dest)} and {value}; expected one")
        setattr(namespace, self.dest, value)


def _value_type(hint: Any) -> tuple[Any, bool]:
    """The type of a value, and whether the option takes several: ``(Path, True)`` of ``list[Path] | None``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _value_type(next(each for each in arguments if each is not type(None)))
    return (hint, False) if origin is None else (arguments[0], True)


def select(kind: type[T], given: Any) -> T:
    """The fields of a dataclass among the attributes of any object; those it lacks, or that are None, have defaults."""
    values = {each.name: getattr(given, each.name, None) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if value is not None})


def from_arguments(kind: type[T], arguments: argparse.Namespace) -> T:
    """The options that a parser with :func:`add_arguments` has read, their ranges checked."""
    found = select(kind, arguments)
    check(found)
    return found
