"""What can be said of the files that a command is given before anything is computed."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .errors import TrueNegError


def require_checkpoint(path: Path) -> None:
    """Says what to do with a folder of Hugging Face's that is given as a checkpoint."""
    if not path.is_dir():
        return
    found, remedy = "a folder", "give a file such as checkpoint_last.pt"
    if (path / "config.json").is_file():
        found = "a Hugging Face model"
        remedy = f"convert it: truneg convert from-hf {path} --data DATA-BIN --output CKPT.pt"
    raise TrueNegError(f"{path}: is {found}, expected a fairseq checkpoint; {remedy}")


def require_writable(path: Path, flag: str, *, makes_folders: bool = False) -> None:
    """Says before a long computation that its result cannot be written; it leaves nothing behind.

    A device or a pipe is taken as it is. ``makes_folders``: missing folders will be made.
    """
    try:
        if path.is_dir():
            raise TrueNegError(f"{flag} {path}: is a folder; expected the file to write")
        if path.exists() and not path.is_file():
            return
        folder = path.resolve().parent
        while makes_folders and not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TrueNegError(f"{flag} {path}: cannot be written ({error.strerror}); choose another folder") from None


def require_once(flag: str, files: Sequence[Path]) -> None:
    """Refuses a file that is named twice, by one name or by several: a relative one, or a link."""
    times = Counter(map(os.path.realpath, files))
    if len(times) < len(files):
        raise TrueNegError(f"{flag}: names {min(name for name in times if times[name] > 1)} twice; name it once")


def require_different(**files: Path | Sequence[Path] | None) -> None:
    """Refuses an output that would overwrite an input or another output; None is passed over.

    The names are the flags', with "_" for "-", or those that arguments without a flag have in the help.
    """
    flags: dict[Path, str] = {}
    for name, given in files.items():
        flag = name if name.isupper() else f"--{name.replace('_', '-')}"
        for path in [given] if isinstance(given, Path) else given or ():
            if path.exists() and not path.is_file():
                continue
            if (other := flags.setdefault(path.resolve(), flag)) != flag:
                raise TrueNegError(f"{flag} {path}: is the file of {other} too; expected different files")


def require_unsplit(path: Path, flag: str) -> None:
    """Refuses a folder of data that fairseq would take for several, as it splits paths at ":"."""
    if ":" in str(path.absolute()):
        raise TrueNegError(
            f"{flag} {path}: has a ':' in its whole path {path.absolute()}, at which fairseq splits folders of data; "
            "choose another name"
        )
