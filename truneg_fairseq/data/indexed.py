"""fairseq's memory-mapped data: made of encoded chunks, whatever their size, and checked before they are mapped."""

from __future__ import annotations

import itertools
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, unreadable
from ..files import writing
from ..vocabulary import read_symbols

IDS_NAME, SIZES_NAME = "ids.bin", "sizes.bin"
"""A chunk's tokens, and the lengths of its items (int32)."""

_COPY_BYTES = 1 << 22
_ITEMS_AT_ONCE = 1 << 20  # of an index that is checked
_TOKENS_AT_ONCE = 1 << 22  # of a split that is counted
# fairseq's MMapIndexedDataset.Index: a header, the items' lengths (int32), their places in the data (int64).
_MAGIC = b"MMIDIDX\0\0"
_OTHER_MAGIC = (b"TNTIDX\0\0", b"HUFFIDX\0")  # of fairseq's other formats
_HEADER = struct.Struct("<9sQBQ")  # magic, version, code of the type, items
_ITEM_BYTES = 4 + 8
_ITEM_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 4, 7: 8, 8: 2, 9: 4, 10: 8}  # bytes, by fairseq's code of the type
_CODES = {np.dtype(np.uint16): 8, np.dtype(np.uint32): 9}
_INTEGERS = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32, 10: np.uint64}


def write_dataset(prefix: Path, chunks: Sequence[Path], dtype: type[np.generic]) -> None:
    """Makes ``prefix.bin`` and ``prefix.idx``, the files that fairseq-preprocess would write, of chunks' folders."""
    data, index = prefix.with_name(f"{prefix.name}.bin"), prefix.with_name(f"{prefix.name}.idx")
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
        stream.writelines(pointers.tobytes() for pointers in _pointers(sizes(), np.dtype(dtype).itemsize))


def _pointers(sizes: Iterable[NDArray[np.int32]], itemsize: int) -> Iterator[NDArray[np.int64]]:
    """Where each item begins, in bytes."""
    offset = 0
    for part in sizes:
        lengths = part.astype(np.int64) * itemsize
        ends = offset + np.cumsum(lengths)
        yield ends - lengths
        offset += int(lengths.sum())


def read_tokens(prefix: Path) -> Iterator[NDArray[np.integer[Any]]]:
    """The tokens of a split and of its continuations (``train1``, ...), each mapped from its file as one array."""
    for number in itertools.count():
        part = prefix.with_name(f"{prefix.name}{number or ''}")
        index = part.with_name(f"{part.name}.idx")
        if number and not index.is_file():
            return
        require_whole(part)
        yield _map(part)


def _map(prefix: Path) -> NDArray[np.integer[Any]]:
    """The tokens of a file, one after the other."""
    with prefix.with_name(f"{prefix.name}.idx").open("rb") as stream:
        *_, code, _ = _HEADER.unpack(stream.read(_HEADER.size))
    data = prefix.with_name(f"{prefix.name}.bin")
    # An empty file cannot be mapped.
    return np.memmap(data, dtype=_INTEGERS[code], mode="r") if data.stat().st_size else np.empty(0, _INTEGERS[code])


def require_whole_split(prefix: Path) -> None:
    """:func:`require_whole` for a split and its continuations (``train1``, ...), where they are memory-mapped. No id
    may be beyond the ``dict.txt`` beside them.

    For the start of a training: it reads each file once, a gigabyte in about a second where the disk is as fast.
    """
    dictionary = prefix.with_name("dict.txt")
    size = len(read_symbols(dictionary)) if dictionary.is_file() else None
    for number in itertools.count():
        part = prefix.with_name(f"{prefix.name}{number or ''}")
        index = part.with_name(f"{part.name}.idx")
        if not index.is_file():
            return
        with index.open("rb") as stream:
            other_format = stream.read(8) in _OTHER_MAGIC
        if other_format:
            continue
        require_whole(part)
        if size is not None and (largest := _map(part).max(initial=0)) >= size:
            raise TrueNegError(
                f"{part}.bin: has the id {largest:,}, but {dictionary} {size:,} symbols; the file is damaged, or of "
                "another dictionary; remove the folder and binarize again"
            )


def require_whole(prefix: Path) -> None:
    """Compares an index with its own size and with its data, before fairseq maps either; every item is looked at."""
    index, data = prefix.with_name(f"{prefix.name}.idx"), prefix.with_name(f"{prefix.name}.bin")
    try:
        found, expected = data.stat().st_size, _bytes_of_data(index)
        problem = None if found == expected else f"{data}: has {found:,} bytes, its index expects {expected:,}"
    except OSError as error:
        problem = f"{error.filename}: {unreadable(error)}"
    except ValueError as error:
        problem = f"{index}: {error}"
    if problem:
        raise TrueNegError(f"{problem}; remove the folder and binarize again")


def _bytes_of_data(index: Path) -> int:
    """The size of the data that an index describes; ValueError where it is damaged."""
    size, expected = index.stat().st_size, 0
    with index.open("rb") as stream:
        magic, version, code, items = _HEADER.unpack(stream.read(_HEADER.size).ljust(_HEADER.size, b"\0"))
    known = (magic, version) == (_MAGIC, 1) and code in _ITEM_SIZES
    if not known or size != _HEADER.size + items * _ITEM_BYTES:
        raise ValueError(f"is damaged or cut ({size:,} bytes); expected fairseq's index")
    if items:
        sizes = np.memmap(index, np.int32, "r", _HEADER.size, (items,))
        pointers = np.memmap(index, np.int64, "r", _HEADER.size + sizes.nbytes, (items,))
        parts = [sizes[first : first + _ITEMS_AT_ONCE] for first in range(0, items, _ITEMS_AT_ONCE)]
        for number, right in enumerate(_pointers(parts, _ITEM_SIZES[code])):
            found_here = pointers[number * _ITEMS_AT_ONCE :][: len(right)]
            if parts[number].min() < 0 or not np.array_equal(right, found_here):
                raise ValueError("is damaged: its items do not lie one after the other")
        expected = int(pointers[-1]) + int(sizes[-1]) * _ITEM_SIZES[code]
    return expected


def token_counts(prefix: Path, size: int) -> NDArray[np.int64] | None:
    """How often each of ``size`` tokens occurs in ``prefix.bin``, shape (size,); None without a file of this format."""
    try:
        require_whole(prefix)
    except TrueNegError:
        return None
    tokens, counts = _map(prefix), np.zeros(size, dtype=np.int64)
    for start in range(0, len(tokens), _TOKENS_AT_ONCE):  # bincount makes int64 of all that it is given
        counts += np.bincount(tokens[start : start + _TOKENS_AT_ONCE], minlength=size)[:size]
    return counts
