"""Published datasets and files of text to folders of plain text: a paragraph per line, a blank line behind a document.

What is made lies in ``OUTPUT.parts`` until all is there, and a finished part is not made again. What a file holds is
known by its content, and only then by its name. ``fsspec``, which Hugging Face's ``datasets`` brings, opens files:
paths, s3://, hf:// and https:// addresses.
"""

from __future__ import annotations

import functools
import json
import posixpath
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from .. import files
from ..errors import TrueNegError, reason, require
from ..options import check, option
from ..workers import Advance, Progress, available_cores, run_tasks
from .text import JSON_LINE

Documents = Iterator[list[str]]
"""The lines of each document; their ends may be left."""

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zstd")
_JSON = (".json", ".jsonl", ".jsonlines", ".ndjson")
_USUAL = (".txt", ".raw", ".parquet", *_JSON)
_TITLE = re.compile(r" ?= [^=].* = ?")
_OTHERS = (".xml", ".tar", ".tgz", ".zip", ".csv", ".tsv", ".html")
_LOOKED_AT = 1 << 12  # bytes of a file, to know a binary one
_SURROGATES = re.compile("[\ud800-\udfff]")
NAMED = {
    "wikitext-2": "Salesforce/wikitext:wikitext-2-raw-v1",
    "wikitext-103": "Salesforce/wikitext:wikitext-103-raw-v1",
    "wikipedia": "wikimedia/wikipedia:20231101.en",
    "openwebtext": "Skylion007/openwebtext",
}
"""Short names of datasets."""

_WIKITEXT_NAME = re.compile(r"wikitext(-(2|103))?(-raw)?(-v1)?")
_SPLITS = {"train": "train", "validation": "valid", "valid": "valid", "test": "test"}  # ours, by the datasets' names
_FILES = (
    "files, folders or addresses (s3://, hf://, https://) of text, JSON lines or parquet, also .gz, .bz2, .xz or .zst"
)


@dataclass(frozen=True, kw_only=True)
class ExtractOptions:
    """A dataset or files to extract."""

    dataset: str | None = option(
        None,
        help=f"{', '.join(NAMED)}, a dataset of the Hugging Face Hub or a folder of one, with its configuration behind "
        "a colon (wikimedia/wikipedia:20231101.de)",
        metavar="NAME",
    )
    train: list[str] = option(default_factory=list, help=_FILES, metavar="FILE")
    valid: list[str] = option(default_factory=list, help=_FILES, metavar="FILE")
    test: list[str] = option(default_factory=list, help=_FILES, metavar="FILE")
    output_dir: Path = option(help="folder to make", metavar="DIR")
    valid_every: int = option(0, help="one training document in N goes to valid, where the corpus has none", ge=0)
    workers: int | None = option(None, help="processes (default: one per core)", ge=1)


@dataclass(frozen=True)
class Part:
    """What one task extracts: a file, or a part of a dataset."""

    name: str  # of the files to write
    split: str
    source: str  # the file's address, or the dataset's name of the split
    label: str  # what --valid-every chooses by, whatever other files there are
    shard: tuple[int, int] = (0, 1)  # of a dataset: index and count


def extract(options: ExtractOptions) -> dict[str, Counter[str]]:
    """Extracts to ``DIR/train/*.txt``, ``DIR/valid/*.txt`` and ``DIR/test/*.txt``.

    Text that is there already, of the same files and settings, is kept. Returns by split how many "documents" and
    "lines" have text, and how many lines have a U+FFFD (broken UTF-8).
    """
    require("datasets", extra="corpora")
    check(options)
    output_dir = options.output_dir.absolute()
    folder = output_dir.with_name(f"{output_dir.name}.parts") if files.is_new(output_dir) else output_dir
    parts, text = _plan(options)
    names = ("dataset", "valid_every")
    wanted = {"text": text, **{name: getattr(options, name) for name in names}}
    if folder != output_dir:
        wanted["version"] = files.VERSION  # of the parts: two versions may make other text
    if folder == output_dir or (folder / files.RECORD_NAME).exists():
        files.check_same(folder, files.read_record(folder)["settings"], wanted)
    else:
        (folder / "done").mkdir(parents=True, exist_ok=True)
        files.write_record(folder, {"settings": wanted})
    todo = [part for part in parts if not _done(folder, part).exists()]
    with Progress(desc="extract", unit=" documents") as bar:
        work = functools.partial(functools.partial, _extract_part, folder, options)  # made in each process
        run_tasks(work, todo, min(options.workers or available_cores(), max(1, len(todo))), bar)
    counts: dict[str, Counter[str]] = {}
    for part in parts:
        for split, found in json.loads(_done(folder, part).read_bytes()).items():
            counts.setdefault(split, Counter()).update(found)
    for split in {**text, **{part.split: None for part in parts}}:
        if not counts.get(split, Counter())["documents"]:
            raise TrueNegError(f"--{split}: no document has any text; remove {folder} before another try")
    if folder != output_dir:
        folder.rename(output_dir)
    return counts


def _done(folder: Path, part: Part) -> Path:
    return folder / "done" / f"{part.name}.json"


def _plan(options: ExtractOptions) -> tuple[list[Part], dict[str, list[list[Any]]]]:
    """The parts, and by split the files with their sizes, which tell whether they are still the same."""
    given = {split: getattr(options, split) for split in ("train", "valid", "test") if getattr(options, split)}
    if bool(given) == bool(options.dataset):
        raise TrueNegError("expected either --dataset, or files for --train, --valid or --test")
    if options.dataset:
        counts = {split: data.num_shards for split, data in _load(options).items() if split in _SPLITS}
        return [
            Part(f"{_SPLITS[split]}-{number:05d}", _SPLITS[split], split, f"{split}-{number:05d}", (number, count))
            for split, count in counts.items()
            for number in range(count)
        ], {}
    text: dict[str, list[list[Any]]] = {
        split: [[*file] for address in given[split] for file in find_files(address)] for split in given
    }
    parts = [
        Part(f"{split}-{number:05d}", split, address, label)
        for split, listed in text.items()
        for number, (address, label) in enumerate(_labels([address for address, _ in listed]).items())
    ]
    return parts, text


def _labels(addresses: Sequence[str]) -> dict[str, str]:
    """Each file's name or, where two have the same name, its path below the folder of all."""
    names = {address: posixpath.basename(address) for address in addresses}
    if len(set(names.values())) == len(names):
        return names
    top = posixpath.commonpath([posixpath.dirname(address) for address in names])
    return {address: posixpath.relpath(address, top) for address in names}


def _load(options: ExtractOptions) -> Mapping[str, Any]:
    """The splits of the dataset, streamed."""
    from datasets import load_dataset

    assert options.dataset is not None
    name, _, config = NAMED.get(options.dataset, options.dataset).partition(":")
    splits: Mapping[str, Any] = load_dataset(name, config or None, streaming=True)
    return splits


def _extract_part(folder: Path, options: ExtractOptions, part: Part, advance: Advance) -> None:
    """Writes a part's files, and then that it is done."""
    every = options.valid_every if part.split == "train" else 0
    counts: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        streams: dict[str, BinaryIO] = {}
        for number, document in enumerate(_documents(options, part)):
            split = "valid" if is_held_out(part.label, number, every) else part.split
            lines = [line for line in map(str.strip, document) if line]
            counts.setdefault(split, Counter()).update(
                documents=bool(lines), lines=len(lines), replaced=sum("\ufffd" in line for line in lines)
            )
            if lines and split not in streams:
                (folder / split).mkdir(parents=True, exist_ok=True)
                streams[split] = stack.enter_context(files.replacing_file(folder / split / f"{part.name}.txt"))
            if lines:
                streams[split].write("".join(f"{line}\n" for line in (*lines, "")).encode())
            advance(1)
    with files.replacing_text(_done(folder, part)) as stream:
        json.dump(counts, stream)


def _documents(options: ExtractOptions, part: Part) -> Documents:
    if options.dataset is None:
        return read_documents(part.source)
    index, count = part.shard
    rows = _load(options)[part.source].shard(count, index)
    documents = (document_of(row, part.source) for row in rows)
    name = NAMED.get(options.dataset, options.dataset).partition(":")[0]
    if not _WIKITEXT_NAME.fullmatch(name.rstrip("/").rpartition("/")[2]):
        return documents
    # A row of it is a line, which ends with a line break.
    return articles(chain.from_iterable(lines[:-1] if lines[1:] and not lines[-1] else lines for lines in documents))


def is_held_out(label: str, number: int, every: int) -> bool:
    """Whether the part's document goes to "valid": about one in ``every``; 0 for none."""
    return every > 0 and zlib.crc32(f"{label} {number}".encode()) % every == 0


def find_files(address: str) -> list[tuple[str, int]]:
    """The files, with their sizes, that an address names: a file, a pattern, or a folder with all below it.

    Of a folder those with the usual names; where none has one, those without any ending. Hidden files are passed over.
    """
    import fsspec

    filesystem, path = fsspec.url_to_fs(address)
    pattern = any(character in path for character in "*?[") and not filesystem.exists(path)
    found = filesystem.glob(path, detail=True) if pattern else filesystem.find(path, detail=True)
    found = {name: facts or filesystem.info(name) for name, facts in found.items()}  # HTTP's have no facts
    shown = {
        name: facts["size"]
        for name, facts in found.items()
        if facts["type"] == "file" and (pattern or name == path or "/." not in name.removeprefix(path))
    }
    usual = [name for name in shown if name == path or _ending(name) in _USUAL]
    usual = usual or [name for name in shown if not _ending(name)]
    if not usual or _ending(path) in _OTHERS:
        wanted = f"expected a file or folder of {', '.join(_USUAL)}, as they are or compressed"
        raise TrueNegError(f"{address}: {wanted if found else 'no such file or folder'}")
    return [(filesystem.unstrip_protocol(name), shown[name]) for name in sorted(usual) if shown[name] != 0]


def read_documents(address: str) -> Documents:
    """The documents of a file that :func:`find_files` found: rows, JSON lines, or text between blank lines."""
    import fsspec

    with fsspec.open(address, "rb") as raw, files.unpacked(address, raw) as stream:
        if _ending(address) == ".parquet":
            yield from _read_parquet(raw, address)
            return
        if b"\0" in stream.peek(_LOOKED_AT)[:_LOOKED_AT]:
            raise TrueNegError(f"{address}: is a binary file, or text in UTF-16; expected text in UTF-8")
        first = next(stream, b"").removeprefix(b"\xef\xbb\xbf")
        lines = (line.decode(errors="replace") for line in chain((first,), stream))
        yield from (
            _read_json(lines, address)
            if _ending(address) in _JSON or JSON_LINE.match(first)
            else _paragraph_groups(lines)
        )


def document_of(row: Any, where: str) -> list[str]:
    """The lines of the field "text" of a row of a dataset, parquet or JSON."""
    text = row.get("text", ...) if isinstance(row, Mapping) else ...
    if not isinstance(text, str | None):
        found = ", ".join(row) if isinstance(row, Mapping) else type(row).__name__
        raise TrueNegError(f"{where}: has no field 'text' with the text, but {found}; call the text's field so")
    # JSON may have half a surrogate pair, which is not a character.
    return re.split(r"\r\n|\r|\n", _SURROGATES.sub("\ufffd", text or ""))


def articles(lines: Iterable[str]) -> Documents:
    """WikiText: a title between single ``=``, alone between blank lines, opens an article."""
    article: list[str] = []
    before = ""
    for line, after in pairwise(chain(lines, ("",))):
        is_title = _TITLE.fullmatch(line.rstrip("\r\n")) and not before.strip() and not after.strip()
        if is_title and any(map(str.strip, article)):
            yield article
            article = []
        article.append(line)
        before = line
    yield article


def _ending(address: str) -> str:
    """The ending of a file's name, without that of its compression, in lower case."""
    path = PurePosixPath(address)
    return PurePosixPath(path.stem if path.suffix.lower() in _COMPRESSED else path.name).suffix.lower()


def read_table(path: Path) -> Any:
    """A file of rows as Hugging Face's ``datasets`` writes them, Parquet, CSV or JSON lines: a table of pyarrow."""
    require("pyarrow", extra="corpora")
    from pyarrow import csv, json, parquet

    if path.suffix == ".parquet":
        return parquet.read_table(path)
    if path.suffix == ".csv":
        return csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
    return json.read_json(path)


def _read_parquet(stream: Any, address: str) -> Documents:
    from pyarrow import ArrowInvalid, parquet

    try:
        with parquet.ParquetFile(stream) as file:
            columns = ["text"] if "text" in file.schema_arrow.names else None
            for batch in file.iter_batches(256, columns=columns):
                yield from (document_of(row, address) for row in batch.to_pylist())
    except ArrowInvalid as error:
        raise TrueNegError(f"{address}: is truncated or damaged ({reason(error)}); get the file again") from None


def _read_json(lines: Iterable[str], address: str) -> Documents:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{address}: line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise TrueNegError(f"{where}: is not JSON ({error}); expected an object per line") from None
            yield document_of(row, where)


def _paragraph_groups(lines: Iterable[str]) -> Documents:
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    yield document
