"""fairseq's memory-mapped data: made of encoded chunks, whatever their size, and checked before they are mapped."""

from __future__ import annotations

import itertools
import mmap
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, unreadable
from ..files import writing

IDS_NAME, SIZES_NAME = "ids.bin", "sizes.bin"
"""A chunk's tokens, and the lengths of its items (int32)."""

_COPY_BYTES = 1 << 22
_TOKENS_AT_ONCE = 1 << 22  # of a split that is counted
# fairseq's MMapIndexedDataset.Index: a header, the items' lengths (int32), their places in the data (int64).
_MAGIC = b"MMIDIDX\0\0"
_OTHER_MAGIC = (b"TNTIDX\0\0", b"HUFFIDX\0")  # of fairseq's other formats
_HEADER = struct.Struct("<9sQBQ")  # magic, version, code of the type, items
_ITEM_BYTES = 4 + 8
_CODES = {np.dtype(np.uint16): 8, np.dtype(np.uint32): 9}
_INTEGERS: dict[int, Any] = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64}
_INTEGERS |= {8: np.uint16, 9: np.uint32, 10: np.uint64}


def write_dataset(prefix: Path, chunks: Sequence[Path], dtype: type[np.generic]) -> None:
    """Makes ``prefix.bin`` and ``prefix.idx``, the files that fairseq-preprocess would write, of chunks' folders."""
    data, index = (prefix.with_name(f"{prefix.name}.{end}") for end in ("bin", "idx"))
    with writing(data), data.open("wb") as stream:
        for chunk in chunks:
            with (chunk / IDS_NAME).open("rb") as ids:
                shutil.copyfileobj(ids, stream, _COPY_BYTES)
    with writing(index):
        write_index(index, lambda: (np.fromfile(chunk / SIZES_NAME, dtype=np.int32) for chunk in chunks), dtype)


def write_index(index: Path, sizes: Callable[[], Iterable[NDArray[np.int32]]], dtype: type[np.generic]) -> None:
    """Writes fairseq's index of items that lie one after the other.

    fairseq's own ``merge_file_`` keeps several Python numbers an item, gigabytes for a large corpus, and with numpy 2
    its pointers overflow where the data have 2 GiB. ``sizes``, called three times, reads the lengths of the items in
    tokens, int32, part by part.
    """
    with index.open("wb") as stream:
        stream.write(_HEADER.pack(_MAGIC, 1, _CODES[np.dtype(dtype)], sum(map(len, sizes()))))
        stream.writelines(part.tobytes() for part in sizes())
        offset = 0
        for part in sizes():
            lengths = part.astype(np.int64) * np.dtype(dtype).itemsize
            ends = offset + np.cumsum(lengths)
            stream.write((ends - lengths).tobytes())
            offset += int(lengths.sum())


def read_tokens(prefix: Path) -> Iterator[NDArray[np.integer[Any]]]:
    """The tokens of a split and of its continuations (``train1``, ...), each mapped from its file as one array."""
    for part in list(parts_of(prefix)) or [prefix]:
        require_whole(part)
        yield map_tokens(part)


def parts_of(prefix: Path) -> Iterator[Path]:
    """A split and its continuations, as far as they are there."""
    for number in itertools.count():
        part = prefix.with_name(f"{prefix.name}{number or ''}")
        if not part.with_name(f"{part.name}.idx").is_file():
            return
        yield part


def map_tokens(prefix: Path) -> NDArray[np.integer[Any]]:
    """The tokens of a file, one after the other, mapped."""
    with prefix.with_name(f"{prefix.name}.idx").open("rb") as stream:
        *_, code, _ = _HEADER.unpack(stream.read(_HEADER.size))
    data = prefix.with_name(f"{prefix.name}.bin")
    if data.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, _INTEGERS[code])
    with data.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_WILLNEED)  # it may be read in random order: let the system read ahead
    return np.frombuffer(mapped, dtype=_INTEGERS[code])


def read_sizes(prefix: Path) -> NDArray[np.int32]:
    """The lengths of the items in tokens, int32, shape (items,)."""
    with prefix.with_name(f"{prefix.name}.idx").open("rb") as stream:
        *_, items = _HEADER.unpack(stream.read(_HEADER.size))
        return np.fromfile(stream, dtype=np.int32, count=items)


def require_whole_split(prefix: Path) -> None:
    """:func:`require_whole` for a split and its continuations, if they are there and memory-mapped; refuses one
    without a token, which fairseq reads as no batch or as a division by 0.
    """
    sizes = []
    for part in parts_of(prefix):
        with part.with_name(f"{part.name}.idx").open("rb") as stream:
            if stream.read(8) in _OTHER_MAGIC:
                return
        require_whole(part)
        sizes.append(part.with_name(f"{part.name}.bin").stat().st_size)
    if sizes and not any(sizes):
        raise TrueNegError(f"{prefix}.bin: has no token; expected a text that was not empty; binarize it again")


def require_whole(prefix: Path) -> None:
    """Compares an index with its own size and with that of its data, before fairseq maps either."""
    index, data = (prefix.with_name(f"{prefix.name}.{end}") for end in ("idx", "bin"))
    problem = ""
    try:
        expected, found = _bytes_of_data(index), data.stat().st_size
        if expected is None:
            problem = f"{index}: is of another format of fairseq-preprocess than --dataset-impl mmap"
        elif found != expected:
            problem = f"{data}: has {found:,} bytes, its index expects {expected:,}"
    except OSError as error:
        problem = f"{error.filename}: {unreadable(error)}"
    except (ValueError, struct.error):
        problem = f"{index}: is damaged or cut"
    if problem:
        raise TrueNegError(f"{problem}; remove the folder and binarize again")


def _bytes_of_data(index: Path) -> int | None:
    """Where the last item ends, by the index; None of fairseq's other formats."""
    with index.open("rb") as stream:
        header = stream.read(_HEADER.size)
        if header[:8] in _OTHER_MAGIC:
            return None
        magic, version, code, items = _HEADER.unpack(header)
        if (magic, version) != (_MAGIC, 1) or index.stat().st_size != _HEADER.size + items * _ITEM_BYTES:
            raise ValueError
        if not items:
            return 0
        stream.seek(_HEADER.size + 4 * (items - 1))
        (size,) = struct.unpack("<i", stream.read(4))
        stream.seek(-8, 2)
        (start,) = struct.unpack("<q", stream.read(8))
    return int(start + size * np.dtype(_INTEGERS.get(code, np.float64)).itemsize)


def token_counts(prefix: Path, size: int) -> NDArray[np.int64] | None:
    """How often each of ``size`` tokens occurs in ``prefix.bin``, shape (size,); None without a file of this format."""
    try:
        require_whole(prefix)
    except TrueNegError:
        return None
    tokens, counts = map_tokens(prefix), np.zeros(size, dtype=np.int64)
    for start in range(0, len(tokens), _TOKENS_AT_ONCE):  # bincount makes int64 of all that it is given
        counts += np.bincount(tokens[start : start + _TOKENS_AT_ONCE], minlength=size)[:size]
    return counts
