"""Options: the field of a dataclass declares a flag once, with its help and its range.

The same field is a flag of ``truneg``, a flag of fairseq-train and a key of hydra (fairseq reads ``help`` and
``choices`` from the metadata), and an argument of transformers' ``HfArgumentParser``. :func:`check` is the one place
that compares values with ranges.
"""

from __future__ import annotations

import argparse
import math
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import TrueNegError

T = TypeVar("T")

_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "gt": (">", lambda value, limit: value > limit),
    "ge": (">=", lambda value, limit: value >= limit),
    "lt": ("<", lambda value, limit: value < limit),
    "le": ("<=", lambda value, limit: value <= limit),
}


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
    **limits: float,
) -> Any:
    """A dataclass field that is an option.

    Args:
        default: without one the flag is required.
        help: for ``--help`` and the documentation's tables.
        default_factory: makes the default of a list.
        choices: the values that are allowed.
        metavar: how ``--help`` calls the value.
        positional: an argument without a flag.
        **limits: ``gt``, ``ge``, ``lt`` and ``le``; of every item where the option is a list.
    """
    unknown = limits.keys() - _LIMITS.keys()
    if unknown:
        raise TypeError(f"option() has no limit {sorted(unknown)[0]!r}")
    metadata = _Metadata(help=help, **limits)
    for key, value in (("choices", choices), ("metavar", metavar), ("positional", positional or None)):
        if value is not None:
            metadata[key] = value
    return field(default=default, default_factory=default_factory, metadata=metadata)


def flag_of(name: str) -> str:
    """The flag of a field: ``--hc-weight`` of ``hc_weight``."""
    return f"--{name.replace('_', '-')}"


def check(options: Any, *, flags: Callable[[str], str] = flag_of) -> None:
    """Compares the fields of a dataclass with the ranges and choices that they declare; None is always allowed.

    Args:
        options: an instance of a dataclass whose fields are made by :func:`option`, or have its metadata.
        flags: how a field is called where its value was given, for the message.
    """
    for each in fields(options):
        value = getattr(options, each.name)
        for item in value if isinstance(value, list | tuple) else (value,):
            if item is not None and not _fits(item, each):
                raise TrueNegError(f"{flags(each.name)} {item}: expected {_expected(each, item)}")


def _fits(value: Any, declared: Field[Any]) -> bool:
    choices = declared.metadata.get("choices")
    if choices is not None and value not in choices:
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    limits = [(fits, declared.metadata[key]) for key, (_, fits) in _LIMITS.items() if key in declared.metadata]
    return all(fits(value, limit) for fits, limit in limits)


def _expected(declared: Field[Any], value: Any) -> str:
    if declared.metadata.get("choices") is not None:
        return " or ".join(str(choice) for choice in declared.metadata["choices"])
    limits = [f"{sign} {declared.metadata[key]}" for key, (sign, _) in _LIMITS.items() if key in declared.metadata]
    return f"a {'finite ' if isinstance(value, float) else ''}number {' and '.join(limits)}".rstrip()


def add_arguments(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    """Adds an argument for each field of a dataclass of options."""
    hints = get_type_hints(kind)
    for declared in fields(kind):
        _add_argument(parser, declared, hints[declared.name])


def _add_argument(parser: argparse.ArgumentParser, declared: Field[Any], hint: Any) -> None:
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    required = default is MISSING
    kind, several = _value_type(hint)
    text = str(declared.metadata.get("help", "")).replace("%", "%%")
    if not required and default not in (None, False, [], ()) and "(default" not in text:
        text = f"{text} (default: {default})"
    settings: dict[str, Any] = {"help": text, "default": None if required else default}
    if kind is bool:
        settings["action"] = "store_true"
    else:
        settings |= {"type": kind, "choices": declared.metadata.get("choices")}
        if settings["choices"] is None:
            settings["metavar"] = declared.metadata.get("metavar", {Path: "PATH", int: "N"}.get(kind))
    if declared.metadata.get("positional"):
        settings["nargs"] = ("+" if required else "*") if several else (None if required else "?")
        parser.add_argument(declared.name, **settings)
        return
    if several:
        settings |= {"nargs": "+", "action": _Extend}
    parser.add_argument(flag_of(declared.name), dest=declared.name, required=required, **settings)


class _Extend(argparse.Action):
    """Joins the values of a flag that is given several times; the first of them replaces the default."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        given = getattr(namespace, self.dest)
        setattr(namespace, self.dest, list(values) if given is self.default else [*given, *values])


def _value_type(hint: Any) -> tuple[Any, bool]:
    """The type of a value, and whether the option takes several: ``(Path, True)`` of ``list[Path] | None``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _value_type(next(each for each in arguments if each is not type(None)))
    if origin is Literal:
        return type(arguments[0]), False
    if origin is not None:
        return arguments[0], True
    return hint, False


def select(kind: type[T], given: Any) -> T:
    """The fields of a dataclass among the attributes of any object; those it lacks, or that are None, have defaults."""
    values = {each.name: getattr(given, each.name, None) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if value is not None})


def from_arguments(kind: type[T], arguments: argparse.Namespace) -> T:
    """The options that a parser with :func:`add_arguments` has read, their ranges checked."""
    found = kind(**{each.name: getattr(arguments, each.name) for each in fields(kind)})  # type: ignore[arg-type]
    check(found)
    return found
