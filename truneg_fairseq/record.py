"""Records what an output folder was made from, so that different data never mix."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import TrueNegError
from .files import replacing_text
from .schema import read_json

RECORD_NAME = "record.json"
VERSION: str = sys.modules[__name__.partition(".")[0]].__version__
"""Of this package, which may make other things of the same input in another version."""

CITATION = """\
@inproceedings{zhang2023true,
  title = {Language Model Pre-training on True Negatives},
  author = {Zhang, Zhuosheng and Zhao, Hai and Utiyama, Masao and Sumita, Eiichiro},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023},
  url = {https://arxiv.org/abs/2212.00460}
}"""

"""For the cards of models."""

_EXPECTED = "what this command writes there; choose another --output-dir, or move the folder away"
_LARGEST_RECORD = 1 << 30  # bytes; a file of text takes about a hundred, and corpora have millions


def input_facts(files: Mapping[str, Sequence[Path]]) -> dict[str, list[list[Any]]]:
    """Path, size and time of change (ns) of files, by split: what tells whether a file is still the same."""
    return {
        split: [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
        for split, paths in files.items()
    }


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a folder: "settings", and for finished data "splits"."""
    return read_json(folder / RECORD_NAME, dict[str, Any], expected=_EXPECTED, limit=_LARGEST_RECORD)


def check_same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises where a folder was made of other text or with other settings."""
    for name, value in wanted.items():
        if found.get(name) == value:
            continue
        what = f"of {name} {found.get(name)}, expected {value}"
        if name == "text":
            before = {entry[0]: entry[1:] for files in (found.get(name) or {}).values() for entry in files}
            now = {entry[0]: entry[1:] for files in value.values() for entry in files}
            first = next((path for path in now if before.get(path) != now[path]), None)
            change = f"{first} has changed since" if first in before else f"without {first}"
            what = f"of other text ({change if first else 'of other files, or in another order'})"
        elif name in ("tokenizer", "dictionary"):
            what = f"with another {name}"
        raise TrueNegError(f"--output-dir: {folder} was made {what}; remove it or choose another folder")


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes a folder's record, at once or not at all."""
    with replacing_text(folder / RECORD_NAME) as stream:
        stream.write(json.dumps(record))
