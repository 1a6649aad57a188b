"""Reads minimal pairs in the format of BLiMP (Warstadt et al., TACL 2020): JSON lines, a paradigm a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from ..errors import TrueNegError
from ..files import parse_json, read_bytes

_EXPECTED = 'BLiMP\'s JSON lines with "sentence_good", "sentence_bad" and "UID"'
_LARGEST_FILE = 64 << 20  # bytes


class _Line(Struct):
    sentence_good: str
    sentence_bad: str
    UID: str


@dataclass(frozen=True)
class Pair:
    """Two sentences, of which one is right."""

    name: str  # its paradigm and number
    paradigm: str  # BLiMP's UID
    good: str
    bad: str


def read_pairs(paths: Sequence[Path], most: int | None = None) -> tuple[list[Pair], str]:
    """The pairs of files, and of all .jsonl files of folders: of each paradigm the first ``most``.

    With them comes the SHA-256 (hex) of the files one after the other.
    """
    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    digest, pairs = hashlib.sha256(), list[Pair]()
    counts: dict[str, int] = {}
    for file in files:
        content = read_bytes(file, expected=_EXPECTED, limit=_LARGEST_FILE)
        digest.update(content)
        for number, line in enumerate(content.splitlines(), start=1):
            if not line.strip():
                continue
            found = parse_json(line, f"{file}: line {number}", _Line, expected=_EXPECTED)
            index = counts[found.UID] = counts.get(found.UID, 0) + 1
            if most is None or index <= most:
                pairs.append(Pair(f"{found.UID} {index}", found.UID, found.sentence_good, found.sentence_bad))
    if not pairs:
        raise TrueNegError(f"{', '.join(map(str, paths))}: no pairs; expected {_EXPECTED}, or a folder of such files")
    return pairs, digest.hexdigest()
