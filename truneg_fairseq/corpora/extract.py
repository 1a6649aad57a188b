"""Published corpora to folders of plain text, a paragraph a line and a blank line behind every document.

The files of a corpus are shared out to processes. What is made lies in ``OUTPUT.parts`` until all is there, and a
finished share is not made again.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TrueNegError, reason
from ..files import is_new, make_output_folder, replacing_file, replacing_text
from ..parallel import Advance, run_tasks
from ..progress import Progress
from ..record import check_same, continue_parts, input_facts, read_record, write_record
from ..schema import read_json
from .formats import DOCUMENT_END, FORMATS, Source
from .text import BROKEN_UTF8, BrokenLines

SHARE_BYTES = 64 << 20

_SPLITS = ("train", "valid", "test")
_DONE = "done"


@dataclass(frozen=True)
class ExtractCounts:
    """What was written."""

    documents: int = 0  # with text
    lines: int = 0  # with text
    empty: int = 0  # documents without text, Wikipedia's redirects among them; not written
    replaced: int = 0  # lines with a U+FFFD for broken UTF-8
    skipped: int = 0  # lines left out for broken UTF-8

    def __add__(self, other: ExtractCounts) -> ExtractCounts:
        return ExtractCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Extracted:
    """What a run did."""

    splits: dict[str, ExtractCounts]  # the counts of all the text, by split
    made: bool  # False where the text was there already
    seconds: float  # of this run


@dataclass(frozen=True)
class ExtractSettings:
    """The settings, besides the files, that determine the text."""

    format: str  # one of :data:`truneg_fairseq.corpora.formats.FORMATS`
    field: str = "text"  # where .jsonl and .parquet keep the text
    valid_every: int = 0  # about one training document in so many goes to "valid" instead; 0 for none
    broken_utf8: str = "error"  # one of :data:`truneg_fairseq.corpora.text.BROKEN_UTF8`
    share_bytes: int = SHARE_BYTES  # files are shared out together up to this size


@dataclass(frozen=True)
class Share:
    """Files that one task extracts to one file a split."""

    name: str  # of the files to write
    split: str  # of the files
    # with their names or, where a split has two of the same name, their paths below the folder of all
    files: tuple[tuple[str, Path], ...]


def extract(
    splits: Mapping[str, Sequence[Path]], output_dir: Path, settings: ExtractSettings, workers: int = 1
) -> Extracted:
    """Extracts a corpus to ``output_dir/train/*.txt``, ``valid/*.txt`` and ``test/*.txt``.

    Args:
        splits: files or folders by "train", "valid" and "test".
        output_dir: the folder to make. Text that is there already, of the same files and settings, is kept.
        settings: how.
        workers: processes.
    """
    started = time.monotonic()
    _check(splits, settings, workers)
    output_dir = output_dir.absolute()
    form = FORMATS[settings.format]
    files = {s: [p.absolute() for p in form.files(f"--{s}", list(splits[s]))] for s in _SPLITS if splits.get(s)}
    endings = {ending for paths in files.values() for path in paths for ending in path.suffixes}
    if settings.field != ExtractSettings.field and endings.isdisjoint({".jsonl", ".parquet"}):
        raise TrueNegError(f"--field {settings.field}: has no effect, as no file is .jsonl or .parquet; leave it out")
    wanted = {"text": input_facts(files), **asdict(settings)}
    if is_new(output_dir):
        parts = output_dir.with_name(f"{output_dir.name}.parts")
        try:
            counts = _make(files, parts, wanted, settings, workers)
            _put_into_place(parts, output_dir)
            return Extracted(counts, True, time.monotonic() - started)
        except (OSError, TrueNegError):
            if is_new(output_dir):
                raise
            # Another command was faster, and has moved the parts away under this one.
            shutil.rmtree(parts, ignore_errors=True)
    record = read_record(output_dir)
    check_same(output_dir, record["settings"], wanted)
    counts = {split: ExtractCounts(**values) for split, values in record["splits"].items()}
    return Extracted(counts, False, time.monotonic() - started)


def _make(
    files: Mapping[str, Sequence[Path]],
    parts: Path,
    wanted: Mapping[str, Any],
    settings: ExtractSettings,
    workers: int,
) -> dict[str, ExtractCounts]:
    """Extracts what is missing in ``parts``; returns the counts of all the text, by split."""
    make_output_folder(parts / _DONE)
    if not any((parts / _DONE).iterdir()):
        write_record(parts, {"settings": wanted})
    continue_parts(parts, wanted)
    counts = _run(
        parts, [share for split in files for share in _shares(split, files[split], settings)], settings, workers
    )
    check_same(parts, {"text": input_facts(files)}, {"text": wanted["text"]})
    for split, values in counts.items():
        if values.documents == 0:
            what = (
                f"{len(files[split]):,} files has" if split in files else f"one in {settings.valid_every} documents has"
            )
            raise TrueNegError(f"--{split}: none of its {what} any text; remove {parts} before another try")
    write_record(parts, {"settings": wanted, "splits": {split: asdict(values) for split, values in counts.items()}})
    return counts


def is_held_out(name: str, number: int, every: int) -> bool:
    """Whether a document goes to "valid": about one in ``every``, whatever else there is.

    Args:
        name: of its file, see :class:`Share`.
        number: of the document in its file.
        every: 0 for none.
    """
    return every > 0 and zlib.crc32(f"{name} {number}".encode()) % every == 0


class Extractor:
    """Extracts shares of a corpus.

    Args:
        parts: the folder to write.
        settings: how.
    """

    def __init__(self, parts: Path, settings: ExtractSettings) -> None:
        self._parts = parts
        self._settings = settings

    def __call__(self, share: Share, advance: Advance) -> None:
        """Writes a share's files, and then that it is done."""
        splits = (share.split, "valid") if self._settings.valid_every and share.split == "train" else (share.split,)
        with ExitStack() as stack:
            outputs = {}
            for split in splits:
                make_output_folder(self._parts / split)
                outputs[split] = _Output(stack.enter_context(replacing_file(self._parts / split / f"{share.name}.txt")))
            for name, path in share.files:
                self._extract(name, path, share.split, outputs, advance)
        for split, output in outputs.items():
            if output.counts.lines == 0:
                (self._parts / split / f"{share.name}.txt").unlink()
        with replacing_text(self._parts / _DONE / f"{share.name}.json") as stream:
            json.dump({split: asdict(output.counts) for split, output in outputs.items()}, stream)

    def _extract(self, name: str, path: Path, split: str, outputs: Mapping[str, _Output], advance: Advance) -> None:
        settings = self._settings
        every = settings.valid_every if split == "train" else 0
        broken = BrokenLines()
        source = Source(path, settings.field, settings.broken_utf8, advance, broken)
        number = 0
        output = outputs["valid" if is_held_out(name, number, every) else split]
        for line in FORMATS[settings.format].read(source):
            if line is DOCUMENT_END:
                output.end_document()
                number += 1
                output = outputs["valid" if is_held_out(name, number, every) else split]
            else:
                output.write(line)
        outputs[split].counts += ExtractCounts(replaced=broken.replaced, skipped=broken.skipped)


class _Output:
    """One text file under way."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines = 0
        self.counts = ExtractCounts()

    def write(self, line: str) -> None:
        line = line.strip()
        if line:
            self._stream.write(line.encode() + b"\n")
            self._lines += 1

    def end_document(self) -> None:
        if self._lines:
            self._stream.write(b"\n")
        self.counts += ExtractCounts(documents=int(self._lines > 0), lines=self._lines, empty=int(self._lines == 0))
        self._lines = 0


def _check(splits: Mapping[str, Sequence[Path]], settings: ExtractSettings, workers: int) -> None:
    if workers < 1:
        raise TrueNegError(f"--workers {workers}: expected 1 or more")
    if settings.format not in FORMATS:
        raise TrueNegError(f"--format {settings.format}: expected one of {', '.join(FORMATS)}")
    if settings.field != ExtractSettings.field and settings.format != "text":
        raise TrueNegError(f"--field {settings.field}: is of --format text; {settings.format} has none, leave it out")
    if settings.broken_utf8 not in BROKEN_UTF8:
        raise TrueNegError(f"--broken-utf8 {settings.broken_utf8}: expected one of {', '.join(BROKEN_UTF8)}")
    if settings.valid_every and (settings.valid_every < 2 or splits.get("valid") or not splits.get("train")):
        raise TrueNegError(
            f"--valid-every {settings.valid_every}: expected 2 or more, with --train and without --valid: it takes one "
            "document in so many from the training text"
        )
    if not any(splits.values()):
        raise TrueNegError("no text: expected files or folders for --train, --valid or --test")


def _shares(split: str, files: Sequence[Path], settings: ExtractSettings) -> Iterator[Share]:
    """Runs of files of about ``share_bytes`` together; a larger file is alone."""
    unique = len({path.name for path in files}) == len(files)
    top = os.path.commonpath([path.parent for path in files])
    run: list[tuple[str, Path]] = []
    size = number = 0
    for path in files:
        length = path.stat().st_size
        if run and size + length > settings.share_bytes:
            yield Share(f"{split}-{number:06d}", split, tuple(run))
            run, size, number = [], 0, number + 1
        run.append((path.name if unique else path.relative_to(top).as_posix(), path))
        size += length
    yield Share(f"{split}-{number:06d}", split, tuple(run))


def _run(parts: Path, shares: Sequence[Share], settings: ExtractSettings, workers: int) -> dict[str, ExtractCounts]:
    """Extracts the missing files; returns the counts of all, by split."""
    todo = [share for share in shares if not (parts / _DONE / f"{share.name}.json").exists()]
    total, left = (sum(path.stat().st_size for share in some for _, path in share.files) for some in (shares, todo))
    with Progress(total=total, initial=total - left, desc="extract", unit="B", unit_scale=True) as bar:
        make_extractor = functools.partial(Extractor, parts, settings)
        run_tasks(make_extractor, todo, min(workers, max(1, len(todo))), bar)
    counts: dict[str, ExtractCounts] = {}
    for share in shares:
        for split, values in _read_done(parts / _DONE / f"{share.name}.json").items():
            counts[split] = counts.get(split, ExtractCounts()) + values
    return counts


def _read_done(path: Path) -> dict[str, ExtractCounts]:
    try:
        return read_json(path, dict[str, ExtractCounts], expected="the counts of a part")
    except TrueNegError:
        raise TrueNegError(f"{path}: is gone or broken; remove {path.parents[1]} and run again") from None


def _put_into_place(parts: Path, output_dir: Path) -> None:
    made = {parts / split / f"{done.stem}.txt" for done in (parts / _DONE).iterdir() for split in _read_done(done)}
    try:
        for path in (path for split in _SPLITS for path in (parts / split).glob("*") if path not in made):
            path.unlink()  # what a kill has left
        parts.rename(output_dir)
    except OSError as error:
        raise TrueNegError(f"{output_dir}: cannot be put into place ({reason(error)}); run again") from None
    shutil.rmtree(output_dir / _DONE, ignore_errors=True)
