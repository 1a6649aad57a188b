"""Subcommands as modules: the help is a module's docstring."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import ModuleType

from .parser import add_traceback_flag


def add_subcommands(parser: argparse.ArgumentParser, modules: Mapping[str, ModuleType], metavar: str) -> None:
    """Adds a subcommand for each module; the parsed arguments hold the chosen module's ``run``.

    Args:
        parser: gets the subcommands.
        modules: by name, with ``add_arguments(parser)``, and ``run(args)`` unless they have subcommands themselves.
        metavar: what the help calls a subcommand.
    """
    subparsers = parser.add_subparsers(dest=metavar.lower(), required=True, metavar=metavar)
    for name, module in modules.items():
        description = (module.__doc__ or "").strip()
        subparser = subparsers.add_parser(name, help=description.splitlines()[0], description=description)
        subparser.set_defaults(run=getattr(module, "run", None))
        add_traceback_flag(subparser)
        module.add_arguments(subparser)
