"""One chunk of text to the numbers of fairseq's dictionary: what every process of binarizing does, and how it is kept.

The numbers lie in files of their own, raw and without fairseq, whose import would take longer than most chunks;
:mod:`truneg_fairseq.data.indexed` puts them together to fairseq's format.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..corpora.text import BrokenLines, Chunk, read_chunk
from ..errors import TrueNegError
from ..files import writing
from ..parallel import Advance
from ..schema import read_json
from ..vocabulary import EOS, UNKNOWN, read_symbols
from .tokenizer import TextTokenizer, load_tokenizer

IDS_NAME, SIZES_NAME, COUNTS_NAME = "ids.bin", "sizes.bin", "counts.json"

_BATCH_LINES = 1_000
_BATCH_CHARACTERS = 1 << 19
# fairseq's own limit (best_fitting_int_dtype).
_LARGEST_UINT16_DICTIONARY = 65_499


@dataclass(frozen=True)
class ChunkCounts:
    """What a chunk became, in fairseq's items: one a line."""

    bytes: int  # of the text
    lines: int  # the items
    blank: int  # the items that hold only ``</s>``
    documents: int  # items with tokens that come first, or after a blank one
    tokens: int  # all tokens, the ``</s>`` of every item included
    unknown: int  # the tokens that are ``<unk>``
    replaced: int  # the lines with a U+FFFD for broken UTF-8
    skipped: int  # the lines left out for broken UTF-8; no items
    starts_inside: bool  # the first item has tokens
    ends_inside: bool  # the last item has tokens


@dataclass(frozen=True)
class ChunkTask:
    """A chunk, and the folder that its numbers become."""

    chunk: Chunk
    folder: Path


class ChunkEncoder:
    """Encodes chunks of text.

    Args:
        folder: ``dict.txt`` and the tokenizer's files.
        broken_utf8: one of :data:`truneg_fairseq.corpora.text.BROKEN_UTF8`.
    """

    def __init__(self, folder: Path, broken_utf8: str) -> None:
        # The processes are the parallelism. Read by tokenizers when it encodes for the first time.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._tokenizer = load_tokenizer(folder)
        symbols = read_symbols(folder)
        self._ids = ids_by_number(self._tokenizer, symbols)
        self._dtype = id_dtype(len(symbols))
        self._broken_utf8 = broken_utf8

    def __call__(self, task: ChunkTask, advance: Advance) -> ChunkCounts:
        """Writes the chunk's folder, which appears whole or not at all."""
        with writing(task.folder):
            part = Path(tempfile.mkdtemp(dir=task.folder.parent, prefix=f".{task.folder.name}-"))
        try:
            with writing(task.folder):
                counts = self._write(task.chunk, part, advance)
                (part / COUNTS_NAME).write_text(json.dumps(asdict(counts)), encoding="utf-8")
                if read_counts(task.folder, np.dtype(self._dtype).itemsize) is None:  # else another process was faster
                    shutil.rmtree(task.folder, ignore_errors=True)  # one that a broken machine left incomplete
                    part.rename(task.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return counts

    def _write(self, chunk: Chunk, folder: Path, advance: Advance) -> ChunkCounts:
        broken = BrokenLines()
        lines = blank = documents = tokens = unknown = 0
        starts_inside = inside = False
        with (folder / IDS_NAME).open("wb") as ids_file, (folder / SIZES_NAME).open("wb") as sizes_file:
            for texts, size in _batches(read_chunk(chunk, self._broken_utf8, broken)):
                ids, sizes = encode_items(self._tokenizer, self._ids, texts)
                ids_file.write(ids.astype(self._dtype).tobytes())
                sizes_file.write(sizes.tobytes())
                full = sizes > 1
                if lines == 0:
                    starts_inside = bool(full[0])
                documents += int(np.count_nonzero(full[1:] & ~full[:-1])) + int(full[0] and not inside)
                inside = bool(full[-1])
                lines += len(texts)
                blank += len(texts) - int(np.count_nonzero(full))
                tokens += len(ids)
                unknown += int(np.count_nonzero(ids == UNKNOWN))
                advance(size)
            if chunk.before_other and (inside or lines == 0):  # no document goes on in another file
                ids_file.write(np.array([EOS], dtype=self._dtype).tobytes())
                sizes_file.write(np.array([1], dtype=np.int32).tobytes())
                lines, blank, tokens, inside = lines + 1, blank + 1, tokens + 1, False
        return ChunkCounts(
            bytes=chunk.end - chunk.start,
            lines=lines,
            blank=blank,
            documents=documents,
            tokens=tokens,
            unknown=unknown,
            replaced=broken.replaced,
            skipped=broken.skipped,
            starts_inside=starts_inside,
            ends_inside=inside,
        )


def read_counts(folder: Path, itemsize: int) -> ChunkCounts | None:
    """The counts of a finished chunk; None where it is not finished, or its files are not as long as they were.

    Args:
        folder: of the chunk.
        itemsize: bytes of a number.
    """
    try:
        counts = read_json(folder / COUNTS_NAME, ChunkCounts, expected="a chunk's counts")
        sizes = [(folder / name).stat().st_size for name in (IDS_NAME, SIZES_NAME)]
    except (OSError, TrueNegError):
        return None
    return counts if sizes == [counts.tokens * itemsize, counts.lines * 4] else None


def id_dtype(symbols: int) -> type[np.uint16] | type[np.uint32]:
    """The type of numbers that fairseq chooses for a dictionary of so many symbols, ``<mask>`` included."""
    # fairseq-preprocess knows no <mask> yet.
    return np.uint16 if symbols - 1 <= _LARGEST_UINT16_DICTIONARY else np.uint32


def ids_by_number(tokenizer: TextTokenizer, symbols: Sequence[str]) -> NDArray[np.int64]:
    """Shape (N + 1,): fairseq's id by the tokenizer's own number; the last entry is that of ``</s>``."""
    id_of = {symbol: index for index, symbol in enumerate(symbols)}
    ids = [id_of.get(symbol, UNKNOWN) for symbol in tokenizer.symbol_of]
    return np.array([*ids, EOS], dtype=np.int64)


def encode_items(
    tokenizer: TextTokenizer, ids: NDArray[np.int64], texts: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Texts as fairseq's items, each with ``</s>`` at its end.

    Args:
        tokenizer: cuts the texts.
        ids: of :func:`ids_by_number`.
        texts: the lines.

    Returns:
        The ids of all texts one after the other, shape (T,), and the lengths of the items, shape (len(texts),).
    """
    numbers = _encode_numbers(tokenizer, texts)
    sizes = np.fromiter((len(line) + 1 for line in numbers), dtype=np.int32, count=len(numbers))
    end = (len(ids) - 1,)
    flat = np.fromiter(chain.from_iterable(chain.from_iterable((line, end) for line in numbers)), dtype=np.int64)
    return ids[flat], sizes


def _encode_numbers(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[Any]:
    """As the tokenizer does, but long texts in pieces: for a text of 10 MB it would need a gigabyte."""
    if max(map(len, texts)) <= _BATCH_CHARACTERS:
        return tokenizer.encode_numbers(texts)
    numbers: list[Any] = []
    for text in texts:
        pieces = (tokenizer.encode_numbers([piece])[0] for piece in tokenizer.cut(text, _BATCH_CHARACTERS))
        numbers.append(np.concatenate([np.asarray(piece, dtype=np.int64) for piece in pieces]))
    return numbers


def _batches(lines: Iterator[tuple[str, int]]) -> Iterator[tuple[list[str], int]]:
    """Lines in batches that are bounded in number and in size, however long the lines are, with their bytes."""
    batch: list[str] = []
    size = characters = 0
    for line, line_bytes in lines:
        batch.append(line)
        size += line_bytes
        characters += len(line)
        if len(batch) == _BATCH_LINES or characters >= _BATCH_CHARACTERS:
            yield batch, size
            batch, size, characters = [], 0, 0
    if batch:
        yield batch, size
