"""Encoded chunks to fairseq's memory-mapped data set, whatever its size."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import writing
from .encode import IDS_NAME, SIZES_NAME

_COPY_BYTES = 1 << 22


def write_dataset(prefix: Path, chunks: Sequence[Path], dtype: type[np.generic]) -> None:
    """Writes ``prefix.bin`` and ``prefix.idx``, the files that fairseq-preprocess would write.

    Args:
        prefix: path without ending.
        chunks: the chunks' folders in their order.
        dtype: of the chunks' numbers.

    Raises:
        TrueNegError: a file cannot be written, or fairseq does not read what was written.
    """
    data, index = prefix.with_name(f"{prefix.name}.bin"), prefix.with_name(f"{prefix.name}.idx")
    with writing(data), data.open("wb") as stream:
        for chunk in chunks:
            with (chunk / IDS_NAME).open("rb") as ids:
                shutil.copyfileobj(ids, stream, _COPY_BYTES)
    with writing(index):
        write_index(index, lambda: (np.fromfile(chunk / SIZES_NAME, dtype=np.int32) for chunk in chunks), dtype)
    _check(index, data)


def write_index(index: Path, sizes: Callable[[], Iterable[NDArray[np.int32]]], dtype: type[np.generic]) -> None:
    """Writes fairseq's index of items that lie one after the other.

    fairseq's own ``merge_file_`` keeps several Python numbers an item, gigabytes for a large corpus, and with numpy 2
    its pointers overflow where the data have 2 GiB; so only the header is left to it.

    Args:
        index: the file to write.
        sizes: reads the lengths of the items in tokens, int32, part by part; it is called three times.
        dtype: of the tokens.
    """
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    with MMapIndexedDataset.Index.writer(str(index), dtype):
        pass
    with index.open("ab") as stream:
        stream.write(struct.pack("<Q", sum(map(len, sizes()))))
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


def _check(index: Path, data: Path) -> None:
    """Reads the index as fairseq does."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    read = MMapIndexedDataset.Index(str(index))
    if len(read) == 0:
        raise TrueNegError(f"{data}: got no line; lower --data-shards, or --chunk-bytes")
    pointer, size = read[len(read) - 1]
    end = int(pointer) + int(size) * np.dtype(read.dtype).itemsize
    if end != data.stat().st_size:
        raise TrueNegError(f"{data}: has {data.stat().st_size:,} bytes, expected {end:,}; run again")
