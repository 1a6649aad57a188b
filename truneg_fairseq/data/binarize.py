"""Text files to the binarized data that fairseq trains on: parallel, in bounded memory, and continued after a kill.

The text is planned as chunks of bytes. Every chunk becomes a folder of numbers in ``OUTPUT.parts``, put into place by
one rename, by any process of any machine that sees that folder; once all are there they are put together. ``OUTPUT``
appears whole or not at all. The numbers are raw and written without fairseq, whose import would take longer than most
chunks; :mod:`.indexed` puts them together to fairseq's format.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..errors import TrueNegError, refuse
from ..flags import check, option
from ..vocabulary import EOS, UNKNOWN, UNKNOWN_SYMBOL, read_symbols
from ..workers import Advance, Progress, available_cores, run_tasks
from .indexed import IDS_NAME, SIZES_NAME, write_dataset
from .text import Line, Span, plan_chunks, read_span, require_plain
from .tokenizer import PretrainedVocabulary, TextTokenizer, TokenizerOptions

SPLITS = ("train", "valid", "test")
CHUNK_BYTES = 16 << 20
"""Of the text, about; what a kill loses is less than one chunk a worker."""

_TEXT = "UTF-8 text files, or folders that are searched for *.txt"
_COUNTS_NAME = "counts.json"
_BATCH_LINES = 1_000
_BATCH_CHARACTERS = 1 << 19
# fairseq's own limit (best_fitting_int_dtype).
_LARGEST_UINT16_DICTIONARY = 65_499


@dataclass(frozen=True, kw_only=True)
class BinarizeOptions(TokenizerOptions):
    """What to binarize, and how."""

    train: list[Path] = option(default_factory=list, help=_TEXT, metavar="TEXT")
    valid: list[Path] = option(default_factory=list, help=_TEXT, metavar="TEXT")
    test: list[Path] = option(default_factory=list, help=_TEXT, metavar="TEXT")
    output_dir: Path = option(help="folder to make", metavar="DATA-BIN")
    workers: int | None = option(None, help="processes (default: one per core)", ge=1)
    shard: str | None = option(None, help="do only this part of the work, for one of n machines", metavar="i/n")


class Binarized(NamedTuple):
    """What a run did."""

    # By split, of all the data; with a shard, of its own chunks: "lines" (fairseq's items), "tokens" (the ``</s>`` of
    # every item included), "unknown" ones, and lines that have "replaced" broken UTF-8 by U+FFFD.
    splits: dict[str, Counter[str]]
    made: bool  # False if the data were there already


def binarize(options: BinarizeOptions) -> Binarized:
    """Binarizes text files, one item a line; a blank line is an item that holds only ``</s>``.

    If one file ends without a blank line and another follows, such an item is put between them: blank lines separate
    documents. Data that are there already, of the same text and settings, are kept.
    """
    check(options)
    index, _, shards = ("1/1" if options.shard is None else options.shard).partition("/")
    is_shard = index.isdecimal() and shards.isdecimal() and 1 <= int(index) <= int(shards)
    given = {split: paths for split in SPLITS if (paths := getattr(options, split))}
    refuse(
        (not is_shard, f"--shard {options.shard}: expected i/n with i from 1 to n, such as 3/8"),
        (not given, "no text: expected files for --train, --valid or --test"),
    )
    text = {split: _text_files(f"--{split}", paths) for split, paths in given.items()}
    tokenizer, output = options.load(), options.output_dir.absolute()
    dictionary = "".join(f"{symbol} 1\n" for symbol in tokenizer.symbols()).encode()
    settings = {  # as JSON; text by path, size and time of change
        "text": _state_of(text),
        "tokenizer": tokenizer.digest,
        "dictionary": hashlib.sha256(dictionary).hexdigest(),
        "chunks_of": CHUNK_BYTES,
        "version": files.VERSION,
    }
    if not files.is_new(output):
        record = files.read_record(output)
        names = ("text", "tokenizer", "dictionary")
        files.require_same(str(output), record.settings, {name: settings[name] for name in names})
        return Binarized({split: Counter(counts) for split, counts in record.splits.items()}, made=False)
    parts = output.with_name(f"{output.name}.parts")
    _prepare_parts(parts, tokenizer, dictionary, settings)
    planned = {split: plan_chunks(paths, CHUNK_BYTES) for split, paths in text.items()}
    tasks = {
        split: [_Task(chunk, parts / f"{split}-{number:06d}") for number, chunk in enumerate(chunks)]
        for split, chunks in planned.items()
    }
    workers = options.workers or available_cores()
    if options.shard is not None:
        return Binarized(_encode(parts, tasks, workers, slice(int(index) - 1, None, int(shards))), made=True)
    with files.hold_lock(parts / ".lock", f"--output-dir: another command makes {output}"):
        counts = _encode(parts, tasks, workers, slice(None))
        # It may have changed meanwhile.
        files.require_same(str(parts), {"text": _state_of(text)}, {"text": settings["text"]})
        for split, count in counts.items():
            if count["tokens"] == count["lines"]:
                found = ", ".join(map(str, (text[split] or given[split])[:3]))
                raise TrueNegError(
                    f"--{split}: there is no text in {found}; expected a sentence or paragraph per line; remove "
                    f"{parts} before another try"
                )
        with files.new_folder(output) as made:
            for name in ("dict.txt", *tokenizer.contents()):
                shutil.copyfile(parts / name, made / name)
            for split, chunks in tasks.items():
                write_dataset(made / split, [task.folder for task in chunks], id_dtype(len(read_symbols(parts))))
            files.write_json(made / files.RECORD_NAME, {"settings": settings, "splits": counts})
        shutil.rmtree(parts, ignore_errors=True)
    return Binarized(counts, made=True)


@dataclass(frozen=True)
class _Task:
    """A chunk, and the folder that its numbers become."""

    chunk: Sequence[Span]
    folder: Path

    @property
    def bytes(self) -> int:
        return sum(span.end - span.start for span in self.chunk)

    def counts(self) -> dict[str, int]:
        """Empty if the chunk is not finished."""
        path = self.folder / _COUNTS_NAME
        return dict(json.loads(path.read_bytes())) if path.exists() else {}


def _state_of(text: Mapping[str, Sequence[Path]]) -> dict[str, list[list[Any]]]:
    return {
        split: [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
        for split, paths in text.items()
    }


def _text_files(flag: str, inputs: Sequence[Path]) -> list[Path]:
    listed = []
    for path in inputs:
        found = files.files_below(path, "*.txt") if path.is_dir() else [path]
        # Each part of a file is read by itself, which a pipe does not allow.
        if not found or not path.exists() or path.is_fifo():
            raise TrueNegError(f"{flag} {path}: no such file or folder with *.txt; expected {_TEXT}")
        listed += found
    for path in listed:
        require_plain(path)
    files.require_once(flag, listed)
    return [path.absolute() for path in listed if path.stat().st_size > 0]


def _prepare_parts(parts: Path, tokenizer: TextTokenizer, dictionary: bytes, settings: dict[str, Any]) -> None:
    """Makes the folder of parts, or checks that one that is there is of the same text and settings."""
    if not (parts / files.RECORD_NAME).exists():
        tokenizer.save(parts)
        with files.replacing_file(parts / "dict.txt") as stream:
            stream.write(dictionary)
        # Last: it tells that the others are there. Shards that start at once write the same.
        files.write_json(parts / files.RECORD_NAME, {"settings": settings})
    files.require_same(str(parts), files.read_record(parts).settings, settings)


def _encode(parts: Path, tasks: Mapping[str, list[_Task]], workers: int, shard: slice) -> dict[str, Counter[str]]:
    """Encodes the missing chunks of a shard; returns the counts of its chunks."""
    mine = [(split, task) for split, chunks in tasks.items() for task in chunks][shard]
    todo = [task for _, task in mine if not task.counts()]
    total, left = sum(task.bytes for _, task in mine), sum(task.bytes for task in todo)
    with Progress(total=total, initial=total - left, desc="encode", unit="B", unit_scale=True) as bar:
        # Less than a chunk is done before other processes have started.
        run_tasks(functools.partial(ChunkEncoder, parts), todo, min(workers, 1 + left // CHUNK_BYTES), bar)
    counts = {split: Counter[str]() for split in tasks}
    for split, task in mine:
        counts[split].update(task.counts())
    return counts


class ChunkEncoder:
    """Encodes chunks of text by the ``dict.txt`` and the tokenizer of a folder: the work of every process."""

    def __init__(self, folder: Path) -> None:
        # The processes are the parallelism. Read by tokenizers when it encodes for the first time.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        vocabulary = PretrainedVocabulary.load(folder)
        self._tokenizer, self._dtype = vocabulary.tokenizer, id_dtype(len(vocabulary.symbols))
        # fairseq's id by the tokenizer's own number; the last two are those of ``<unk>`` and ``</s>``
        self._ids = np.append(vocabulary.id_of_number, [UNKNOWN, EOS])

    def __call__(self, task: _Task, advance: Advance) -> None:
        """Writes the chunk's folder, which appears whole or not at all."""
        with files.writing(task.folder):
            part = Path(tempfile.mkdtemp(dir=task.folder.parent, prefix=f".{task.folder.name}-"))
            try:
                counts = self._write(task.chunk, part, advance)
                (part / _COUNTS_NAME).write_text(json.dumps(counts), encoding="utf-8")
                if not task.counts():  # else another process was faster
                    part.rename(task.folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def _write(self, chunk: Sequence[Span], folder: Path, advance: Advance) -> Counter[str]:
        counts = Counter(lines=0, tokens=0, unknown=0, replaced=0)
        with (folder / IDS_NAME).open("wb") as ids_file, (folder / SIZES_NAME).open("wb") as sizes_file:
            for lines, ids, sizes in chain.from_iterable(map(self._encode_span, chunk)):
                ids_file.write(ids.astype(self._dtype).tobytes())
                sizes_file.write(sizes.tobytes())
                unknown, replaced = int(np.count_nonzero(ids == UNKNOWN)), sum(line.replaced for line in lines)
                counts.update(lines=len(sizes), tokens=len(ids), unknown=unknown, replaced=replaced)
                advance(sum(line.size for line in lines))
        return counts

    def _encode_span(self, span: Span) -> Iterator[tuple[list[Line], NDArray[np.int64], NDArray[np.int32]]]:
        """Batches of lines as :meth:`_items`, and a blank item where a file ends without one and another follows: no
        document goes on in another file.
        """
        is_blank = False  # a file's last line that begins in another span is not seen here
        for lines in _batches(read_span(span)):
            ids, sizes = self._items([line.text for line in lines])
            is_blank = bool(sizes[-1] == 1)
            yield lines, ids, sizes
        if span.before_other and not is_blank:
            yield [], np.array([EOS]), np.array([1], dtype=np.int32)

    def _items(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Texts as fairseq's items, each with ``</s>`` at its end.

        The ids of all texts, shape (T,), come one after the other; the lengths of the items have the shape
        (len(texts),).
        """
        numbers = self._around_unknown(texts)
        sizes = np.fromiter((len(line) + 1 for line in numbers), dtype=np.int32, count=len(numbers))
        end = (len(self._ids) - 1,)
        flat = np.fromiter(chain.from_iterable(chain.from_iterable((line, end) for line in numbers)), dtype=np.int64)
        return self._ids[flat], sizes

    def _around_unknown(self, texts: Sequence[str]) -> list[Any]:
        """The tokenizer's numbers. ``<unk>`` in a text, as WikiText has it, is the unknown token, with the spaces
        before it.
        """
        if not any(UNKNOWN_SYMBOL in text for text in texts):
            return self._tokenizer.encode_numbers(texts)
        unknown = len(self._ids) - 2
        parts = [text.split(UNKNOWN_SYMBOL) for text in texts]
        before = ((*(part.rstrip(" ") for part in its[:-1]), its[-1]) for its in parts)
        encoded = iter(self._tokenizer.encode_numbers(list(chain.from_iterable(before))))
        return [[*next(encoded), *chain.from_iterable((unknown, *next(encoded)) for _ in its[1:])] for its in parts]


def id_dtype(symbols: int) -> type[np.uint16] | type[np.uint32]:
    """The type of numbers that fairseq chooses for a dictionary of so many symbols, ``<mask>`` included."""
    # fairseq-preprocess knows no <mask> yet.
    return np.uint16 if symbols - 1 <= _LARGEST_UINT16_DICTIONARY else np.uint32


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines in batches that are bounded in number and in size, however long the lines are."""
    batch, characters = list[Line](), 0
    for line in lines:
        batch.append(line)
        characters += len(line.text)
        if len(batch) == _BATCH_LINES or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
