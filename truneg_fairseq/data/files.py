"""Writing text files so that a half-written one is never seen."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ..errors import TrueNegError


def make_output_folder(folder: Path) -> None:
    """Makes a folder and its parents where they are missing.

    Raises:
        TrueNegError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrueNegError(f"{folder}: cannot be made a folder ({error.strerror}); choose another one") from None


@contextlib.contextmanager
def replacing_text(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text stream that becomes the file ``path`` when the block ends well, and leaves nothing when it fails.

    Raises:
        TrueNegError: the folder cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        stream = part.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be written ({error.strerror}); choose another folder") from None
    try:
        with stream:
            yield stream
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
