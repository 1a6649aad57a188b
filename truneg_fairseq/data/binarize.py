"""Text files to the binarized data that fairseq trains on: parallel, in bounded memory, and continued after a kill.

The text is planned as chunks of bytes. Every chunk becomes a folder of numbers in ``OUTPUT.parts``, put into place by
one rename, by any process of any machine that sees that folder; once all are there they are put together. ``OUTPUT``
appears whole or not at all.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora.text import BROKEN_UTF8, plan_chunks
from ..errors import TrueNegError, reason
from ..files import is_new, replacing_file, writing
from ..parallel import run_tasks
from ..paths import require_once, require_unsplit
from ..progress import Progress
from ..record import RECORD_NAME, check_same, continue_parts, input_facts, read_record, write_record
from ..schema import convert
from ..vocabulary import read_symbols
from .encode import ChunkCounts, ChunkEncoder, ChunkTask, id_dtype, read_counts
from .indexed import require_whole, write_dataset
from .tokenizer import TextTokenizer, tokenizer_files
from .tokenizer_fit import check_dictionary

_logger = logging.getLogger(__name__)

SPLITS = ("train", "valid", "test")
CHUNK_BYTES = 16 << 20

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".jsonl", ".parquet")


@dataclass(frozen=True)
class SplitCounts:
    """What a split holds, as :class:`truneg_fairseq.data.encode.ChunkCounts` says."""

    documents: int
    lines: int
    blank: int
    tokens: int
    unknown: int
    replaced: int
    skipped: int


@dataclass(frozen=True)
class Shard:
    """The ``index``-th of ``count`` parts of the work, from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Reads ``i/n``."""
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise TrueNegError(f"--shard {text}: expected i/n with i from 1 to n, such as 3/8")
        return cls(int(index), int(count))


@dataclass(frozen=True)
class Binarized:
    """What a run did."""

    splits: dict[str, SplitCounts]  # the counts of all the data, by split; with a shard, of its own chunks
    made: bool  # False where the data were there already
    folders: list[Path]  # the folders for fairseq, several with ``data_shards``; none with a shard
    seconds: float  # of this run


def binarize(
    splits: Mapping[str, Sequence[Path]],
    tokenizer: TextTokenizer,
    output_dir: Path,
    *,
    dictionary: Path | None = None,
    workers: int = 1,
    shard: Shard | None = None,
    data_shards: int = 1,
    broken_utf8: str = "error",
    chunk_bytes: int = CHUNK_BYTES,
) -> Binarized:
    """Binarizes text files, one item a line; a blank line is an item that holds only ``</s>``.

    Where one file ends without a blank line and another follows, such an item is put between them: blank lines separate
    documents.

    Args:
        splits: text files (UTF-8, plain) or folders of ``*.txt``, by "train", "valid" and "test".
        tokenizer: its files are kept beside the data.
        output_dir: the folder to make. Data that are there already, of the same text and settings, are kept.
        dictionary: a ``dict.txt`` to take instead of the tokenizer's own symbols in their order.
        workers: processes.
        shard: do only this part of the chunks, and put nothing together.
        data_shards: cut the training data into so many folders ``output_dir/0`` ..., for fairseq's
            ``fairseq-train DIR/0:DIR/1``; the other splits go to the first one.
        broken_utf8: one of :data:`truneg_fairseq.corpora.text.BROKEN_UTF8`.
        chunk_bytes: of the text, about; what a kill loses is less than one chunk a worker.
    """
    started = time.monotonic()
    _check_numbers(workers, data_shards, chunk_bytes, broken_utf8)
    require_unsplit(output_dir, "--output-dir")
    job = _Job(
        output_dir.absolute(),
        {split: _text_files(f"--{split}", splits[split]) for split in SPLITS if splits.get(split)},
        broken_utf8,
        chunk_bytes,
    )
    if not job.files:
        raise TrueNegError("no text: expected files for --train, --valid or --test")
    _warn_of_shared_files(job.files)
    folders = _data_folders(job.output_dir, data_shards)
    content = _dictionary_content(tokenizer, dictionary)
    settings = job.settings(tokenizer, content)
    complete = {**settings, "data_shards": data_shards}
    if is_new(job.output_dir):
        try:
            _prepare_parts(job, settings, tokenizer, content)
            chunks = _encode(job, workers, shard)
            counts = {split: add_counts(chunks[split]) for split in job.files}
            if shard is not None:
                return Binarized(counts, True, [], time.monotonic() - started)
            check_same(job.parts, job.settings(tokenizer, content), settings)  # the text may have changed meanwhile
            _check_text(counts, job.parts)
            record = {"settings": complete, "splits": {split: asdict(count) for split, count in counts.items()}}
            _put_together(job, record, data_shards)
            return Binarized(counts, True, folders, time.monotonic() - started)
        except (OSError, TrueNegError):
            if is_new(job.output_dir):
                raise
            # Another command was faster, and has removed the parts under this one.
            shutil.rmtree(job.parts, ignore_errors=True)
    counts = _finished(job, complete, folders)
    return Binarized(counts, False, folders, time.monotonic() - started)


def add_counts(chunks: Sequence[ChunkCounts]) -> SplitCounts:
    """The counts of a split from those of its chunks in their order; a document over two chunks is one."""
    full = [chunk for chunk in chunks if chunk.lines]
    joined = sum(one.ends_inside and other.starts_inside for one, other in pairwise(full))
    names = ("lines", "blank", "tokens", "unknown", "replaced", "skipped")
    return SplitCounts(
        documents=sum(chunk.documents for chunk in full) - joined,
        **{name: sum(getattr(chunk, name) for chunk in chunks) for name in names},
    )


@dataclass(frozen=True)
class _Job:
    output_dir: Path
    files: dict[str, list[Path]]
    broken_utf8: str
    chunk_bytes: int

    @property
    def parts(self) -> Path:
        return self.output_dir.with_name(f"{self.output_dir.name}.parts")

    def settings(self, tokenizer: TextTokenizer, dictionary: bytes) -> dict[str, Any]:
        return settings_of(
            self.files, tokenizer, dictionary, broken_utf8=self.broken_utf8, chunk_bytes=self.chunk_bytes
        )

    @functools.cached_property
    def tasks(self) -> dict[str, list[ChunkTask]]:
        return {
            split: [
                ChunkTask(chunk, self.parts / f"{split}-{number:06d}")
                for number, chunk in enumerate(plan_chunks(files, self.chunk_bytes))
            ]
            for split, files in self.files.items()
        }


def _check_numbers(workers: int, data_shards: int, chunk_bytes: int, broken_utf8: str) -> None:
    for flag, value in (("--workers", workers), ("--data-shards", data_shards), ("--chunk-bytes", chunk_bytes)):
        if value < 1:
            raise TrueNegError(f"{flag} {value}: expected 1 or more")
    if broken_utf8 not in BROKEN_UTF8:
        raise TrueNegError(f"--broken-utf8 {broken_utf8}: expected one of {', '.join(BROKEN_UTF8)}")


def _text_files(flag: str, inputs: Sequence[Path]) -> list[Path]:
    files = []
    for path in inputs:
        found = sorted(path.glob("*.txt")) if path.is_dir() else [path]
        if not found:
            raise TrueNegError(f"{flag} {path}: has no *.txt; expected text, as 'truneg data extract-corpus' writes it")
        files += found
    for path in files:
        if not path.is_file():
            raise TrueNegError(f"{path}: no such file; {flag} expects text files")
        if path.suffix in _COMPRESSED:
            raise TrueNegError(f"{path}: is no plain text; make it so with 'truneg data extract-corpus' first")
        if path.stat().st_size == 0:
            raise TrueNegError(f"{path}: the file is empty; {flag} expects text, a sentence or paragraph a line")
    require_once(flag, files)
    return [path.absolute() for path in files]


def _warn_of_shared_files(files: Mapping[str, list[Path]]) -> None:
    """Says which files several splits have; it may be meant, in a trial."""
    for one, other in combinations(files, 2):
        for path in sorted({path.resolve() for path in files[one]} & {path.resolve() for path in files[other]}):
            _logger.warning(f"{path}: is in --{one} and --{other}; expected other text for each")


def _data_folders(output_dir: Path, data_shards: int) -> list[Path]:
    return [output_dir] if data_shards == 1 else [output_dir / str(number) for number in range(data_shards)]


def _dictionary_content(tokenizer: TextTokenizer, dictionary: Path | None) -> bytes:
    if dictionary is None:
        return "".join(f"{symbol} 1\n" for symbol in tokenizer.symbols()).encode()
    # Its own special symbols may be missing; more would be encoded as <unk>.
    check_dictionary(tokenizer, read_symbols(dictionary), f"--dict {dictionary}", lacking_share=0.01)
    return dictionary.read_bytes()


def _finished(job: _Job, settings: dict[str, Any], folders: list[Path]) -> dict[str, SplitCounts]:
    """The counts of data that are there already, and of these settings."""
    record = read_record(job.output_dir)
    check_same(job.output_dir, record["settings"], {**settings, "chunk_bytes": record["settings"].get("chunk_bytes")})
    missing = [str(path) for folder in folders if not (path := folder / "dict.txt").is_file()]
    if missing:
        raise TrueNegError(f"--output-dir {job.output_dir}: is there without {', '.join(missing)}; remove it")
    for split in job.files:
        for folder in folders if split == "train" else folders[:1]:
            require_whole(folder / split)
    return parse_splits(record, job.output_dir)


def parse_splits(record: Mapping[str, Any], folder: Path) -> dict[str, SplitCounts]:
    """The counts in a record."""
    where, expected = str(folder / RECORD_NAME), "the record of binarized data; remove the folder and binarize again"
    splits = record.get("splits")
    if not isinstance(splits, dict) or not all(isinstance(counts, dict) for counts in splits.values()):
        raise TrueNegError(f"{where}: has no splits; expected {expected}")
    return {split: convert(counts, where, SplitCounts, expected=expected) for split, counts in splits.items()}


def _prepare_parts(job: _Job, settings: dict[str, Any], tokenizer: TextTokenizer, dictionary: bytes) -> None:
    """Makes the folder of parts, or checks that one that is there is of the same text and settings."""
    if not (job.parts / RECORD_NAME).exists():
        tokenizer.save(job.parts)
        with replacing_file(job.parts / "dict.txt") as stream:
            stream.write(dictionary)
        # Last: it tells that the others are there. Shards that start at once write the same.
        write_record(job.parts, {"settings": settings})
    continue_parts(job.parts, settings)


def _encode(job: _Job, workers: int, shard: Shard | None) -> dict[str, list[ChunkCounts]]:
    """Encodes the missing chunks; returns the counts of all chunks, or of the shard."""
    itemsize = np.dtype(_dtype(job)).itemsize
    every = [(split, task) for split, tasks in job.tasks.items() for task in tasks]
    mine = every if shard is None else every[shard.index - 1 :: shard.count]
    todo = [task for _, task in mine if read_counts(task.folder, itemsize) is None]
    total = sum(task.chunk.end - task.chunk.start for _, task in mine)
    left = sum(task.chunk.end - task.chunk.start for task in todo)
    with Progress(total=total, initial=total - left, desc="encode", unit="B", unit_scale=True) as bar:
        make_encoder = functools.partial(ChunkEncoder, job.parts, job.broken_utf8)
        # Less than a chunk is done before other processes have started.
        run_tasks(make_encoder, todo, min(workers, 1 + left // job.chunk_bytes), bar)
    counts: dict[str, list[ChunkCounts]] = {split: [] for split in job.tasks}
    for split, task in mine:
        counts[split].append(_counts(task, itemsize))
    return counts


def _counts(task: ChunkTask, itemsize: int) -> ChunkCounts:
    counts = read_counts(task.folder, itemsize)
    if counts is None:
        raise TrueNegError(f"{task.folder}: is gone or incomplete; run again, and leave this folder alone meanwhile")
    return counts


def _dtype(job: _Job) -> type[np.generic]:
    return id_dtype(len(read_symbols(job.parts)))


def _check_text(splits: Mapping[str, SplitCounts], parts: Path) -> None:
    for split, counts in splits.items():
        if counts.tokens == counts.lines:
            raise TrueNegError(
                f"--{split}: none of its {counts.lines:,} lines has any text; remove {parts} before another try"
            )


def _put_together(job: _Job, record: Mapping[str, Any], data_shards: int) -> None:
    """Makes the output folder of the finished parts, and removes these."""
    tasks = {split: [task.folder for task in tasks] for split, tasks in job.tasks.items()}
    chunks_to_share = len(tasks.get("train", ()))
    if data_shards > 1 and data_shards > chunks_to_share:
        raise TrueNegError(
            f"--data-shards {data_shards}: the training text makes {chunks_to_share:,} chunks; lower it, or remove "
            f"{job.parts} and lower --chunk-bytes"
        )
    # A folder of this process's own: another one may put the same together.
    with writing(job.parts / "whole"), tempfile.TemporaryDirectory(dir=job.parts, prefix="whole-") as temporary:
        made = Path(temporary) / "whole"
        for number, folder in enumerate(_data_folders(made, data_shards)):
            folder.mkdir(parents=True)
            for file in (job.parts / "dict.txt", *tokenizer_files(job.parts)):
                shutil.copyfile(file, folder / file.name)
            for split, chunks in tasks.items():
                if split == "train":
                    write_dataset(folder / split, _share(chunks, number, data_shards), _dtype(job))
                elif number == 0:
                    write_dataset(folder / split, chunks, _dtype(job))
        write_record(made, record)
        try:
            made.rename(job.output_dir)
        except OSError as error:
            raise TrueNegError(f"{job.output_dir}: cannot be put into place ({reason(error)}); run again") from None
    shutil.rmtree(job.parts, ignore_errors=True)


def _share(chunks: list[Path], number: int, count: int) -> list[Path]:
    """The ``number``-th of ``count`` runs of chunks, as even as can be; none is empty where there are enough."""
    return chunks[len(chunks) * number // count : len(chunks) * (number + 1) // count]


def settings_of(
    files: Mapping[str, Sequence[Path]],
    tokenizer: TextTokenizer,
    dictionary: bytes,
    **options: str | int,
) -> dict[str, Any]:
    """The settings that determine binarized data, as JSON: runs with equal settings may share files.

    Args:
        files: the text by split; known by path, size and time of change.
        tokenizer: known by the contents of its files.
        dictionary: the content of ``dict.txt``.
        options: whatever else the data depend on.
    """
    content = hashlib.sha256()
    for name, data in sorted(tokenizer.contents().items()):
        content.update(f"{name} {len(data)}\n".encode())
        content.update(data)
    return {
        "text": input_facts(files),
        "tokenizer": {"kind": tokenizer.kind, "sha256": content.hexdigest()},
        "dictionary": hashlib.sha256(dictionary).hexdigest(),
        **options,
    }
