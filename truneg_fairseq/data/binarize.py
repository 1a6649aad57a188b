"""Text files to the binarized data that fairseq trains on: parallel, in bounded memory, and continued after a kill.

The text is planned as chunks of bytes. Every chunk becomes a folder of numbers in ``OUTPUT.parts``, put into place by
one rename, by any process of any machine that sees that folder; once all are there they are put together. ``OUTPUT``
appears whole or not at all.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..corpora.text import plan_chunks, require_plain
from ..errors import TrueNegError
from ..files import (
    RECORD_NAME,
    VERSION,
    check_same,
    input_facts,
    is_new,
    read_record,
    replacing_file,
    require_once,
    require_unsplit,
    write_record,
    writing,
)
from ..options import check, option
from ..vocabulary import read_symbols
from ..workers import Progress, available_cores, run_tasks
from .encode import ChunkCounts, ChunkEncoder, ChunkTask, SplitCounts, id_dtype, read_counts
from .indexed import write_dataset
from .tokenizer import TextTokenizer, TokenizerOptions, tokenizer_files

SPLITS = ("train", "valid", "test")
CHUNK_BYTES = 16 << 20
"""Of the text, about; what a kill loses is less than one chunk a worker."""

_TEXT = "UTF-8 text files, or folders that are searched for *.txt"


@dataclass(frozen=True, kw_only=True)
class BinarizeOptions(TokenizerOptions):
    """What to binarize, and how."""

    train: list[Path] = option(default_factory=list, help=_TEXT, metavar="TEXT")
    valid: list[Path] = option(default_factory=list, help=_TEXT, metavar="TEXT")
    test: list[Path] = option(default_factory=list, help=_TEXT, metavar="TEXT")
    output_dir: Path = option(help="folder to make", metavar="DATA-BIN")
    workers: int | None = option(None, help="processes (default: one per core)", ge=1)
    shard: str | None = option(None, help="do only this part of the work, for one of n machines", metavar="i/n")


@dataclass(frozen=True)
class Binarized:
    """What a run did."""

    splits: dict[str, SplitCounts]  # the counts of all the data, by split; with a shard, of its own chunks
    made: bool  # False where the data were there already


def binarize(options: BinarizeOptions, tokenizer: TextTokenizer | None = None) -> Binarized:
    """Binarizes text files, one item a line; a blank line is an item that holds only ``</s>``.

    Where one file ends without a blank line and another follows, such an item is put between them: blank lines separate
    documents. Data that are there already, of the same text and settings, are kept. A ``tokenizer`` takes the place of
    the one that the options name.
    """
    check(options)
    require_unsplit(options.output_dir, "--output-dir")
    index, _, shards = ("1/1" if options.shard is None else options.shard).partition("/")
    if not (index.isdecimal() and shards.isdecimal() and 1 <= int(index) <= int(shards)):
        raise TrueNegError(f"--shard {options.shard}: expected i/n with i from 1 to n, such as 3/8")
    job = _Job.of(options, tokenizer or options.load())
    settings = job.settings()
    if not is_new(job.output_dir):
        record = read_record(job.output_dir)
        found = record["settings"]
        check_same(job.output_dir, found, {name: settings[name] for name in ("text", "tokenizer", "dictionary")})
        names = {each.name for each in fields(SplitCounts)}  # older records have others
        splits = record["splits"].items()
        known = {split: {name: counts[name] for name in names & counts.keys()} for split, counts in splits}
        return Binarized({split: SplitCounts(**counts) for split, counts in known.items()}, False)
    _prepare_parts(job, settings)
    chunks = _encode(job, options.workers or available_cores(), slice(int(index) - 1, None, int(shards)))
    counts = {split: _add_counts(chunks[split]) for split in job.files}
    if options.shard is None:
        check_same(job.parts, job.settings(), settings)  # the text may have changed meanwhile
        for split, count in counts.items():
            if count.tokens == count.lines:
                found = ", ".join(map(str, (job.files[split] or getattr(options, split))[:3]))
                raise TrueNegError(
                    f"--{split}: there is no text in {found}; expected a sentence or paragraph per line; remove "
                    f"{job.parts} before another try"
                )
        _put_together(job, {"settings": settings, "splits": {split: asdict(count) for split, count in counts.items()}})
    return Binarized(counts, True)


def _add_counts(chunks: Sequence[ChunkCounts]) -> SplitCounts:
    """The counts of a split from those of its chunks in their order; a document over two chunks is one."""
    full = [chunk for chunk in chunks if chunk.lines]
    joined = sum(one.ends_inside and other.starts_inside for one, other in pairwise(full))
    sums = {each.name: sum(getattr(chunk, each.name) for chunk in chunks) for each in fields(SplitCounts)}
    return SplitCounts(**{**sums, "documents": sums["documents"] - joined})


@dataclass(frozen=True)
class _Job:
    output_dir: Path
    files: dict[str, list[Path]]
    tokenizer: TextTokenizer
    dictionary: bytes  # the content of ``dict.txt``

    @classmethod
    def of(cls, options: BinarizeOptions, tokenizer: TextTokenizer) -> _Job:
        given = {split: getattr(options, split) for split in SPLITS}
        files = {split: _text_files(f"--{split}", paths) for split, paths in given.items() if paths}
        if not files:
            raise TrueNegError("no text: expected files for --train, --valid or --test")
        dictionary = "".join(f"{symbol} 1\n" for symbol in tokenizer.symbols())
        return cls(options.output_dir.absolute(), files, tokenizer, dictionary.encode())

    @property
    def parts(self) -> Path:
        return self.output_dir.with_name(f"{self.output_dir.name}.parts")

    def settings(self) -> dict[str, Any]:
        """What determines the data, as JSON: the text by path, size and time of change, the tokenizer by content."""
        return {
            "text": input_facts(self.files),
            "tokenizer": {"kind": self.tokenizer.kind, "sha256": self.tokenizer.digest},
            "dictionary": hashlib.sha256(self.dictionary).hexdigest(),
            "chunks_of": CHUNK_BYTES,
            "version": VERSION,
        }

    @functools.cached_property
    def tasks(self) -> dict[str, list[ChunkTask]]:
        planned = {split: enumerate(plan_chunks(files, CHUNK_BYTES)) for split, files in self.files.items()}
        return {
            split: [ChunkTask(chunk, self.parts / f"{split}-{number:06d}") for number, chunk in chunks]
            for split, chunks in planned.items()
        }


def _text_files(flag: str, inputs: Sequence[Path]) -> list[Path]:
    files = []
    for path in inputs:
        shown = (each for each in path.rglob("*.txt") if "/." not in f"/{each.relative_to(path)}")
        found = sorted(shown) if path.is_dir() else [path]
        if not path.exists() or path.is_fifo():  # each part of a file is read by itself, which a pipe does not allow
            found_instead = "is a pipe" if path.exists() else "no such file or folder"
            raise TrueNegError(f"{flag} {path}: {found_instead}; expected {_TEXT}")
        if not found:
            raise TrueNegError(f"{flag} {path}: has no *.txt; expected text, as 'truneg data extract-corpus' writes it")
        files += found
    for path in files:
        require_plain(path)
    require_once(flag, files)
    return [path.absolute() for path in files if path.stat().st_size > 0]


def _prepare_parts(job: _Job, settings: dict[str, Any]) -> None:
    """Makes the folder of parts, or checks that one that is there is of the same text and settings."""
    if not (job.parts / RECORD_NAME).exists():
        job.tokenizer.save(job.parts)
        with replacing_file(job.parts / "dict.txt") as stream:
            stream.write(job.dictionary)
        # Last: it tells that the others are there. Shards that start at once write the same.
        write_record(job.parts, {"settings": settings})
    check_same(job.parts, read_record(job.parts)["settings"], settings)


def _encode(job: _Job, workers: int, shard: slice) -> dict[str, list[ChunkCounts]]:
    """Encodes the missing chunks of a shard; returns the counts of its chunks."""
    mine = [(split, task) for split, tasks in job.tasks.items() for task in tasks][shard]
    todo = [task for _, task in mine if read_counts(task.folder) is None]
    total = sum(task.bytes for _, task in mine)
    left = sum(task.bytes for task in todo)
    with Progress(total=total, initial=total - left, desc="encode", unit="B", unit_scale=True) as bar:
        # Less than a chunk is done before other processes have started.
        run_tasks(functools.partial(ChunkEncoder, job.parts), todo, min(workers, 1 + left // CHUNK_BYTES), bar)
    counts: dict[str, list[ChunkCounts]] = {split: [] for split in job.tasks}
    for split, task in mine:
        found = read_counts(task.folder)
        if found is None:
            raise TrueNegError(f"{task.folder}: is gone; run again, and leave this folder alone meanwhile")
        counts[split].append(found)
    return counts


def _put_together(job: _Job, record: Mapping[str, Any]) -> None:
    """Makes the output folder of the finished parts, and removes these."""
    # A folder of this process's own: another one may put the same together.
    with writing(job.parts / "whole"), tempfile.TemporaryDirectory(dir=job.parts, prefix="whole-") as temporary:
        made = Path(temporary) / "whole"
        made.mkdir()
        for file in (job.parts / "dict.txt", *tokenizer_files(job.parts)):
            shutil.copyfile(file, made / file.name)
        dtype = id_dtype(len(read_symbols(job.parts)))
        for split, tasks in job.tasks.items():
            write_dataset(made / split, [task.folder for task in tasks], dtype)
        write_record(made, record)
        made.rename(job.output_dir)
    shutil.rmtree(job.parts, ignore_errors=True)
