"""The description of a prepared folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import file_digest, is_new, read_json, replacing_text, require_unsplit

INFO_FILE = "info.json"
"""Describes a prepared folder; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""
LENGTHS = (128, 512)
"""The sequence lengths, in tokens, for which the reports count the longer examples."""


def read_info(folder: Path) -> dict[str, Any]:
    """The description of a prepared folder."""
    return read_json(folder / INFO_FILE, dict[str, Any], expected="a task's folder, made by 'truneg data prepare'")


def find_made(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The description of a folder that was made before, from the same sources and settings; None without a folder."""
    require_unsplit(folder, "--output-dir")
    if is_new(folder):
        return None
    info = read_info(folder)
    other = [key for key, value in wanted.items() if info.get(key, value) != value]
    if other:
        raise TrueNegError(
            f"{folder}: was made with another {', another '.join(other)}; remove it or choose another --output-dir"
        )
    return info


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Writes the description of :func:`read_info`."""
    with replacing_text(folder / INFO_FILE) as stream:
        json.dump(info, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def describe_sources(files: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """By split, the name and the SHA-256 (hex) of the file."""
    return {split: {"file": path.name, "sha256": file_digest(path)} for split, path in files.items()}


def count_longer(lengths: NDArray[np.int64]) -> dict[str, int]:
    """How many sequences are longer than each of :data:`LENGTHS`."""
    return {f"longer than {length}": int((lengths > length).sum()) for length in LENGTHS}
