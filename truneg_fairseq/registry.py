"""Ideas by name: alternatives, regularizers, yardsticks and fine-tuning tasks, the package's own and a user's.

A user's module registers its classes with the decorators; ``--user-dir`` imports the folder. The package's own are
imported when they are looked up, so that this module stays light. A look-up of a user's name imports nothing: a file
that names an idea runs no code of its author's.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from .errors import TrueNegError, refuse

T = TypeVar("T", bound=type)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_CODE = (".py", ".pyc", ".so")


class Registry:
    """Classes by name.

    Args:
        kind: what they are, in words, for messages.
        built_in: the package's own as ``"module:Class"``, relative to the package.
    """

    def __init__(self, kind: str, built_in: Mapping[str, str]) -> None:
        self.kind, self._built_in = kind, built_in
        self._added: dict[str, type] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return (*self._built_in, *self._added)

    def register(self, name: str) -> Callable[[T], T]:
        """Makes a decorator; a class of the same module and name, as of a notebook's cell run again, takes over."""
        if not _NAME.fullmatch(name):
            raise TrueNegError(f"{self.kind} {name!r}: expected a name of letters, digits, - and _")

        def add(added: T) -> T:
            taken = self._built_in.get(name) or _place(self._added.get(name, added))
            if taken != _place(added):
                raise TrueNegError(f"{self.kind} {name!r}: is the name of {taken} already; expected another name")
            self._added[name] = added
            return added

        return add

    def look_up(self, name: str, flag: str) -> Any:
        """The class of this name; ``flag`` is the option that names it, for the message."""
        if name in self._added:
            return self._added[name]
        if name in self._built_in:
            module, _, kind = self._built_in[name].partition(":")
            return getattr(importlib.import_module(f"{__package__}.{module}"), kind)
        near = difflib.get_close_matches(name, self.names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise TrueNegError(
            f"{flag} {name}: found no {self.kind} of this name; expected one of {', '.join(self.names)}, or --user-dir "
            f"with the folder that registers it{meant}"
        )

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """What a run's record keeps of the ideas that it names: the digests of a user's, by kind and name."""
        found = {f"{self.kind} {name}": self.digest(name) for name in names}
        return {name: digest for name, digest in found.items() if digest is not None}

    def digest(self, name: str) -> str | None:
        """SHA-256, hexadecimal, of a user's idea: its module and the files beside it that are not code, such as data.

        Other modules are not seen. None for the package's own. Of a class of a script or notebook it is the class's
        own source, None where that is not known.
        """
        if (kind := self._added.get(name)) is None:
            return None
        if kind.__module__ == "__main__":
            try:
                return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
            except (OSError, TypeError):
                return None
        from .files import file_digest

        module, found = Path(inspect.getfile(kind)), hashlib.sha256()
        beside = [path for path in module.parent.iterdir() if path.suffix not in _CODE and path.name[0] != "."]
        for path in [module, *sorted(path for path in beside if path.is_file())]:
            found.update(f"{path.name}\0{file_digest(path)}\0".encode())
        return found.hexdigest()


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


ALTERNATIVES = Registry(
    "source of alternatives",
    {
        name: f"objectives.alternatives:{kind}"
        for name, kind in (
            ("table", "Table"),
            ("embedding", "Embedding"),
            ("context", "Context"),
            ("corpus", "Corpus"),
            ("uniform", "Uniform"),
            ("teacher", "Teacher"),
        )
    },
)
TERMS = Registry("regularizer", {"sr-word": "objectives.terms:SrWord", "sr-sent": "objectives.terms:SrSent"})
YARDSTICKS = Registry(
    "yardstick",
    {
        "held-out": "evaluation.held_out:HeldOut",
        "lexsub": "evaluation.lexsub:Lexsub",
        "cloze": "evaluation.cloze:Cloze",
        "blimp": "evaluation.minimal_pairs:Blimp",
        "zorro": "evaluation.minimal_pairs:Zorro",
    },
)
TASKS = Registry(
    "fine-tuning task",
    {
        **{name: f"finetuning.glue:{name.replace('-', '_')}" for name in ("CoLA", "SST-2", "MRPC", "STS-B")},
        **{name: f"finetuning.glue:{name}" for name in ("QQP", "MNLI", "QNLI", "RTE")},
        "SQuAD": "finetuning.squad:Squad",
    },
)

register_alternatives, register_term = ALTERNATIVES.register, TERMS.register
register_yardstick, register_task = YARDSTICKS.register, TASKS.register


def check_user_dir(path: str | Path) -> None:
    """Refuses a path that is not a folder that Python can import."""
    found = f"--user-dir {path}: found no __init__.py in it; expected a folder that Python can import"
    refuse((not (Path(path) / "__init__.py").is_file(), found))


def import_user_dir(path: str | Path | None) -> None:
    """Imports the folder of ``--user-dir``, a package, as fairseq does it, which then finds it imported already.

    Nothing of a folder is imported twice. Imported through a link it would be another folder for fairseq.
    """
    if path is None:
        return
    folder = Path(os.path.abspath(path))  # noqa: PTH100  (fairseq does not follow links either)
    before = sys.modules.get(folder.name)
    check_user_dir(folder)
    other = before is not None and str(folder) not in getattr(before, "__path__", ())
    refuse((other, f"--user-dir {path}: another module is named {folder.name}; expected a folder of another name"))
    if before is None:
        sys.path.insert(0, str(folder.parent))
        importlib.import_module(folder.name)
