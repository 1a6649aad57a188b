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
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..corpora.text import Span, read_span
from ..files import writing
from ..vocabulary import EOS, UNKNOWN, UNKNOWN_SYMBOL, read_symbols
from ..workers import Advance
from .indexed import IDS_NAME, SIZES_NAME
from .tokenizer import TextTokenizer, load_tokenizer

COUNTS_NAME = "counts.json"

_BATCH_LINES = 1_000
_BATCH_CHARACTERS = 1 << 19
# fairseq's own limit (best_fitting_int_dtype).
_LARGEST_UINT16_DICTIONARY = 65_499


@dataclass
class SplitCounts:
    """What text became, in fairseq's items: one a line."""

    documents: int = 0  # items with tokens that come first, or after a blank one
    lines: int = 0  # the items
    blank: int = 0  # the items that hold only ``</s>``
    tokens: int = 0  # all tokens, the ``</s>`` of every item included
    unknown: int = 0  # the tokens that are ``<unk>``
    written_unknown: int = 0  # those of them that stand as ``<unk>`` in the text
    replaced: int = 0  # the lines with a U+FFFD for broken UTF-8


@dataclass
class ChunkCounts(SplitCounts):
    """What a chunk became."""

    starts_inside: bool = False  # the first item has tokens
    ends_inside: bool = False  # the last item has tokens

    def add(self, ids: NDArray[np.int64], sizes: NDArray[np.int32]) -> None:
        """Counts the items that follow: their ids one after the other, and their lengths."""
        full = sizes > 1
        if self.lines == 0:
            self.starts_inside = bool(full[0])
        self.documents += int(np.count_nonzero(full[1:] & ~full[:-1])) + int(full[0] and not self.ends_inside)
        self.ends_inside = bool(full[-1])
        self.lines += len(sizes)
        self.blank += len(sizes) - int(np.count_nonzero(full))
        self.tokens += len(ids)
        self.unknown += int(np.count_nonzero(ids == UNKNOWN))


@dataclass(frozen=True)
class ChunkTask:
    """A chunk, and the folder that its numbers become."""

    chunk: Sequence[Span]
    folder: Path

    @property
    def bytes(self) -> int:
        return sum(span.end - span.start for span in self.chunk)


class ChunkEncoder:
    """Encodes chunks of text by the ``dict.txt`` and the tokenizer of a folder."""

    def __init__(self, folder: Path) -> None:
        # The processes are the parallelism. Read by tokenizers when it encodes for the first time.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._tokenizer = load_tokenizer(folder)
        symbols = read_symbols(folder)
        id_of = {symbol: index for index, symbol in enumerate(symbols)}
        # fairseq's id by the tokenizer's own number; the last two are those of ``<unk>`` and ``</s>``
        self._ids = np.array([*(id_of.get(s, UNKNOWN) for s in self._tokenizer.symbol_of), UNKNOWN, EOS], np.int64)
        self._dtype = id_dtype(len(symbols))

    def __call__(self, task: ChunkTask, advance: Advance) -> None:
        """Writes the chunk's folder, which appears whole or not at all."""
        with writing(task.folder):
            part = Path(tempfile.mkdtemp(dir=task.folder.parent, prefix=f".{task.folder.name}-"))
            try:
                counts = self._write(task.chunk, part, advance)
                (part / COUNTS_NAME).write_text(json.dumps(asdict(counts)), encoding="utf-8")
                if read_counts(task.folder) is None:  # else another process was faster
                    part.rename(task.folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def _write(self, chunk: Sequence[Span], folder: Path, advance: Advance) -> ChunkCounts:
        counts = ChunkCounts()
        with (folder / IDS_NAME).open("wb") as ids_file, (folder / SIZES_NAME).open("wb") as sizes_file:
            for batch in _batches(chunk):
                ids, sizes = encode_items(self._tokenizer, self._ids, batch.texts)
                # A blank item where a file ends without one: no document goes on in another file.
                ends = np.array(batch.file_ends, dtype=np.int64)
                ends = ends[sizes[ends] > 1]
                ids, sizes = np.insert(ids, np.cumsum(sizes)[ends], EOS), np.insert(sizes, ends + 1, 1)
                ids_file.write(ids.astype(self._dtype).tobytes())
                sizes_file.write(sizes.tobytes())
                counts.add(ids, sizes)
                counts.replaced += batch.replaced
                counts.written_unknown += sum(text.count(UNKNOWN_SYMBOL) for text in batch.texts)
                advance(batch.size)
        return counts


def read_counts(folder: Path) -> ChunkCounts | None:
    """The counts of a finished chunk; None where it is not finished."""
    path = folder / COUNTS_NAME
    return ChunkCounts(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def id_dtype(symbols: int) -> type[np.uint16] | type[np.uint32]:
    """The type of numbers that fairseq chooses for a dictionary of so many symbols, ``<mask>`` included."""
    # fairseq-preprocess knows no <mask> yet.
    return np.uint16 if symbols - 1 <= _LARGEST_UINT16_DICTIONARY else np.uint32


def encode_items(
    tokenizer: TextTokenizer, ids: NDArray[np.int64], texts: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Texts as fairseq's items, each with ``</s>`` at its end.

    ``ids``, shape (N + 2,), has fairseq's id by the tokenizer's number, then those of ``<unk>`` and ``</s>``.
    ``<unk>`` in a text, as WikiText has it, is the unknown token. The ids of all texts, shape (T,), come one after the
    other; the lengths of the items have the shape (len(texts),).
    """
    numbers = _encode_numbers(tokenizer, texts, unknown=len(ids) - 2)
    sizes = np.fromiter((len(line) + 1 for line in numbers), dtype=np.int32, count=len(numbers))
    end = (len(ids) - 1,)
    flat = np.fromiter(chain.from_iterable(chain.from_iterable((line, end) for line in numbers)), dtype=np.int64)
    return ids[flat], sizes


def _encode_numbers(tokenizer: TextTokenizer, texts: Sequence[str], unknown: int) -> list[Any]:
    """As the tokenizer does, but long texts in pieces: for a text of 10 MB it would need a gigabyte."""
    if max(map(len, texts)) <= _BATCH_CHARACTERS:
        return _encode_around_unknown(tokenizer, texts, unknown)
    numbers: list[Any] = []
    for text in texts:
        pieces = (
            _encode_around_unknown(tokenizer, [piece], unknown)[0] for piece in tokenizer.cut(text, _BATCH_CHARACTERS)
        )
        numbers.append(np.concatenate([np.asarray(piece, dtype=np.int64) for piece in pieces]))
    return numbers


def _encode_around_unknown(tokenizer: TextTokenizer, texts: Sequence[str], unknown: int) -> list[Any]:
    """The tokenizer's numbers, and the number ``unknown`` for a ``<unk>`` with the spaces before it."""
    if not any(UNKNOWN_SYMBOL in text for text in texts):
        return tokenizer.encode_numbers(texts)
    parts = [text.split(UNKNOWN_SYMBOL) for text in texts]
    before = ((*(part.rstrip(" ") for part in its[:-1]), its[-1]) for its in parts)
    encoded = iter(tokenizer.encode_numbers(list(chain.from_iterable(before))))
    return [[*next(encoded), *chain.from_iterable((unknown, *next(encoded)) for _ in its[1:])] for its in parts]


@dataclass
class _Batch:
    texts: list[str] = field(default_factory=list)
    file_ends: list[int] = field(default_factory=list)  # the texts with which a file ends that another one follows
    size: int = 0  # bytes
    characters: int = 0
    replaced: int = 0


def _batches(chunk: Sequence[Span]) -> Iterator[_Batch]:
    """Lines in batches that are bounded in number and in size, however long the lines are."""
    batch = _Batch()
    for span in chunk:
        empty = True
        for text, size, replaced in read_span(span):
            if len(batch.texts) == _BATCH_LINES or batch.characters >= _BATCH_CHARACTERS:
                yield batch
                batch = _Batch()
            empty = False
            batch.texts.append(text)
            batch.size += size
            batch.characters += len(text)
            batch.replaced += replaced
        if span.before_other and empty:  # the file's last line began in the span before, and may be blank or not
            batch.texts.append("")
        elif span.before_other:
            batch.file_ends.append(len(batch.texts) - 1)
    if batch.texts:
        yield batch
