"""A dataset or files to plain text, by Hugging Face's `datasets`: a paragraph per line, a blank line behind a document.

    pip install 'datasets>=4'
    python data-bin-scripts/extract_corpus.py --dataset wikitext-2 --output-dir text
    python data-bin-scripts/extract_corpus.py --train crawl/*.jsonl.gz --valid-every 1000 --output-dir text

Writes DIR/train/*.txt, DIR/valid/*.txt and DIR/test/*.txt; what is made lies in DIR.parts until all is there. Killed or
failed, the same command goes on with the files that are missing.
"""

import functools
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from datasets import load_dataset
from datasets.utils.logging import disable_progress_bar

from truneg_fairseq import files
from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.flags import option
from truneg_fairseq.workers import Advance, Progress, available_cores, run_tasks

NAMED = {
    "wikitext-2": "Salesforce/wikitext:wikitext-2-raw-v1",
    "wikitext-103": "Salesforce/wikitext:wikitext-103-raw-v1",
    "wikipedia": "wikimedia/wikipedia:20231101.en",
    "openwebtext": "Skylion007/openwebtext",
}
FORMATS = {".txt": "text", ".raw": "text", ".parquet": "parquet"} | dict.fromkeys(
    (".json", ".jsonl", ".jsonlines", ".ndjson"), "json"
)
_SPLITS = {"train": "train", "validation": "valid", "valid": "valid", "test": "test"}  # ours, by the datasets' names
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_TITLE = re.compile(r" ?= [^=].* = ?")
_WIKITEXT = re.compile(r"(.*/)?wikitext(-(2|103))?(-raw)?(-v1)?/?")
_SURROGATES = re.compile("[\ud800-\udfff]")  # JSON may have half a pair, which is not a character
_FILES = "files, patterns or addresses (hf://, https://, s3://), also .gz, .bz2, .xz or .zst"


@dataclass(frozen=True, kw_only=True)
class Options:
    dataset: str | None = option(
        None,
        f"{', '.join(NAMED)}, a dataset of the Hugging Face Hub or a folder of one, with its configuration behind a "
        "colon (wikimedia/wikipedia:20231101.de)",
        metavar="NAME",
    )
    train: list[str] = option(default_factory=list, help=_FILES, metavar="FILE")
    valid: list[str] = option(default_factory=list, help=_FILES, metavar="FILE")
    test: list[str] = option(default_factory=list, help=_FILES, metavar="FILE")
    format: str | None = option(
        None,
        "of the files: text (a document ends at a blank line), json (lines with the field text) or parquet (the column "
        "text); default: by the first one's ending",
        choices=("text", "json", "parquet"),
    )
    output_dir: Path = option(help="folder to make", metavar="DIR")
    valid_every: int = option(0, "one training document in N goes to valid, where the corpus has none", ge=0)
    workers: int | None = option(None, "processes (default: one per core)", ge=1)


def extract(options: Options) -> None:
    """Turn a dataset or files into plain text: a paragraph per line, a blank line behind every document."""
    disable_progress_bar()
    output = options.output_dir.absolute()
    parts = output if output.exists() else output.with_name(f"{output.name}.parts")
    settings = {name: value for name, value in asdict(options).items() if name not in ("output_dir", "workers")}
    if (parts / files.RECORD_NAME).exists():
        files.require_same(str(parts), files.read_record(parts).settings, settings)
    elif output.exists():
        raise TrueNegError(f"--output-dir {output}: is already there; remove it, or name another folder")
    else:
        (parts / "done").mkdir(parents=True, exist_ok=True)
        files.write_json(parts / files.RECORD_NAME, {"settings": settings})
    shards = {split: data.num_shards for split, data in open_splits(options).items() if split in _SPLITS}
    if {"valid", "validation"} <= shards.keys():
        raise TrueNegError(f"{options.dataset}: has the splits valid and validation; expected one of them")
    tasks = [(split, number, count) for split, count in shards.items() for number in range(count)]
    todo = [task for task in tasks if not done(parts, *task[:2]).exists()]
    with Progress(desc="extract", unit=" documents") as bar:
        make_work = functools.partial(functools.partial, extract_shard, options, parts)  # made in each process
        run_tasks(make_work, todo, min(options.workers or available_cores(), max(1, len(todo))), bar)
    counts = {_SPLITS[split]: Counter[str]() for split in shards}
    for split, number, _ in tasks:
        for name, found in json.loads(done(parts, split, number).read_bytes()).items():
            counts.setdefault(name, Counter()).update(found)
    for name, found in counts.items():
        if not found["documents"]:
            raise TrueNegError(f"--{name}: no document has any text; remove {parts} before another try")
        broken = f", {found['broken']:,} lines with U+FFFD (broken UTF-8)" if found["broken"] else ""
        print(f"{output / name}: {found['documents']:,} documents, {found['lines']:,} lines{broken}")
    if parts != output:
        parts.rename(output)
    print(f"next: truneg data binarize --train {output / 'train'} ...")


def open_splits(options: Options) -> Mapping[str, Any]:
    """The splits, streamed: nothing else is kept on the disk."""
    given = {split: found for split in ("train", "valid", "test") if (found := getattr(options, split))}
    if bool(given) == bool(options.dataset):
        raise TrueNegError("expected either --dataset, or files for --train, --valid or --test")
    if options.dataset:
        name, _, configuration = NAMED.get(options.dataset, options.dataset).partition(":")
        dataset: Mapping[str, Any] = load_dataset(name, configuration or None, streaming=True)
        return dataset
    first = PurePosixPath(next(iter(given.values()))[0].lower())
    kind = options.format or FORMATS.get(PurePosixPath(first.stem).suffix if first.suffix in _PACKED else first.suffix)
    if kind is None:
        raise TrueNegError(f"{first}: expected a file of {', '.join(FORMATS)}, packed or not, or --format")
    text = {"sample_by": "paragraph", "encoding_errors": "replace"} if kind == "text" else {}
    read: Mapping[str, Any] = load_dataset(kind, data_files=given, streaming=True, **text)
    return read


def done(folder: Path, split: str, number: int) -> Path:
    """The file that says what a shard held."""
    return folder / "done" / f"{_SPLITS[split]}-{number:05d}.json"


def extract_shard(options: Options, folder: Path, task: tuple[str, int, int], advance: Advance) -> None:
    """Writes a shard's file, and that of its held-out documents; then that it is done."""
    split, index, count = task
    record = done(folder, split, index)
    rows = open_splits(options)[split].shard(count, index)
    documents: Iterable[list[str]] = (lines_of(row, split) for row in rows)
    if options.dataset and _WIKITEXT.fullmatch(NAMED.get(options.dataset, options.dataset).partition(":")[0]):
        documents = articles(chain.from_iterable(lines[:-1] if lines[1:] else lines for lines in documents))
    every = options.valid_every if split == "train" else 0
    counts: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        streams: dict[str, Any] = {}
        for number, document in enumerate(documents):
            is_held_out = every and zlib.crc32(f"{record.stem} {number}".encode()) % every == 0
            name = "valid" if is_held_out else _SPLITS[split]
            if lines := [line for line in map(str.strip, document) if line]:
                if name not in streams:
                    (folder / name).mkdir(exist_ok=True)
                    path = folder / name / f"{record.stem}.txt"
                    streams[name], counts[name] = stack.enter_context(files.replacing_file(path)), Counter()
                streams[name].write("".join(f"{line}\n" for line in (*lines, "")).encode())
                broken = sum("\ufffd" in line for line in lines)
                counts[name].update(documents=1, lines=len(lines), broken=broken)
            advance(1)
    with files.replacing_text(record) as stream:
        json.dump(counts, stream)


def lines_of(row: Mapping[str, Any], where: str) -> list[str]:
    """The lines of the field "text" of a row."""
    if "text" not in row or not isinstance(row["text"], str | None):
        raise TrueNegError(f"--{where}: has no field 'text' with the text, but {', '.join(row)}; call the field so")
    return re.split(r"\r\n|\r|\n", _SURROGATES.sub("\ufffd", (row["text"] or "").removeprefix("\ufeff")))


def articles(lines: Iterable[str]) -> Iterator[list[str]]:
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


if __name__ == "__main__":
    run_as_script(extract)
