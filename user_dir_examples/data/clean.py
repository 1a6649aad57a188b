"""Cleans pre-training text with datatrove, before 'truneg data binarize'.

    python user_dir_examples/data/clean.py --text text/train --output-dir clean \\
        --evaluations dev-v1.1.json MNLI/dev_matched.tsv

Documents go that Gopher's rules of quality and repetition refuse, that share 13 words in a row with an evaluation, or
that nearly repeat another one (minhash). Interrupted or failed, it is run again with the same flags and continues.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import numpy as np
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.io import DataFolderLike
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter, LanguageFilter
from datatrove.pipeline.readers.base import BaseReader
from datatrove.pipeline.writers.disk_base import DiskWriter
from datatrove.utils.hashing import HashConfig
from datatrove.utils.text import ngrams, simplify_text

from truneg_fairseq.data.text import read_lines, read_table
from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.files import RECORD_NAME, files_below, is_new, read_record, replacing_file, require_same, write_json
from truneg_fairseq.launch.process import exit_on_signals
from truneg_fairseq.workers import available_cores

HASHES = HashConfig(hash_fc="sha1")  # datatrove's default, xxhash, fails with releases from 4 on
MINHASH = MinhashConfig(hash_config=HASHES)


class TextReader(BaseReader):
    """Documents of plain text, between blank lines, in files and folders of them; a task reads every n-th file."""

    name = "truneg_fairseq text"

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.files = [file for path in paths for file in (files_below(path, "*.txt") if path.is_dir() else [path])]

    def run(self, data: Iterable[Document] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        yield from data or ()
        for file in self.files[rank::world_size]:
            groups = groupby(map(str.strip, read_lines(file)), bool)
            for number, lines in enumerate(lines for has_text, lines in groups if has_text):
                document = Document(text="\n".join(lines), id=f"{file}/{number}")
                self.update_doc_stats(document)
                yield document


class TextWriter(DiskWriter):
    """A paragraph per line and a blank line behind each document, in a file per task."""

    default_output_filename = "${rank}.txt"
    name = "truneg_fairseq text"

    def __init__(self, output_folder: DataFolderLike) -> None:
        super().__init__(output_folder, mode="wb")

    def _write(self, document: dict[str, Any], file_handler: BinaryIO, filename: str) -> None:
        lines = [line for line in map(str.strip, document["text"].split("\n")) if line]
        file_handler.write("".join(f"{line}\n" for line in (*lines, "")).encode())


def parse() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="text files and folders of them")
    parser.add_argument("--output-dir", type=Path, required=True, help="folder to make")
    parser.add_argument("--evaluations", nargs="*", default=[], help="JSON, Parquet, tables with tabs, or text")
    parser.add_argument("--ngram", type=int, default=13, help="words in a row that show an evaluation's text")
    parser.add_argument("--language", help="keep this language (en); needs fasttext, and downloads its model (131 MB)")
    parser.add_argument("--workers", type=int, default=available_cores(), help="processes; a file is one's work")
    return parser.parse_args()


def main() -> None:
    """Cleans, and prints what went."""
    options = parse()
    output = options.output_dir.absolute()
    if not is_new(output):
        raise TrueNegError(f"--output-dir {output}: is already there; remove it to clean again")
    parts = output.with_name(f"{output.name}.parts")
    reader = TextReader(options.text)
    settings = {name: getattr(options, name) for name in ("evaluations", "ngram", "language")}
    settings["text"] = {"train": [[str(file), file.stat().st_size] for file in reader.files]}
    if (parts / RECORD_NAME).exists():
        require_same(str(parts), read_record(parts).settings, settings)
    else:
        parts.mkdir(parents=True, exist_ok=True)
        write_json(parts / RECORD_NAME, {"settings": settings})

    def run(name: str, *steps: PipelineStep, tasks: int = len(reader.files)) -> list[dict[str, Any]]:
        logs = parts / "logs" / name
        workers = min(tasks, options.workers)
        LocalPipelineExecutor(list(steps), tasks=tasks, workers=workers, logging_dir=str(logs)).run()
        return [step for file in sorted((logs / "stats").iterdir()) for step in json.loads(file.read_bytes())]

    found = NGramsDecontFilter(
        str(parts / "evaluations"), NGramsDecontConfig(n_grams=options.ngram, hash_config=HASHES)
    )
    write_index(found, options.evaluations, parts / "evaluations")
    language = [LanguageFilter(options.language)] if options.language else []
    rules = [GopherRepetitionFilter(), GopherQualityFilter()]
    counts = run("rules", reader, *language, *rules, found, TextWriter(str(parts / "kept")))
    if not (parts / "kept").exists():
        raise TrueNegError(f"--text: no document is left; {parts}/logs/rules/stats.json says which rule they broke")
    kept = TextReader([parts / "kept"])
    run("signatures", kept, MinhashDedupSignature(str(parts / "signatures"), MINHASH))
    buckets = MinhashDedupBuckets(str(parts / "signatures"), str(parts / "pairs"), config=MINHASH)
    run("buckets", buckets, tasks=MINHASH.num_buckets)
    run("clusters", MinhashDedupCluster(str(parts / "pairs"), str(parts / "repeated"), MINHASH), tasks=1)
    last = run("repeated", kept, MinhashDedupFilter(str(parts / "repeated")), TextWriter(str(parts / "text")))
    report(counts, last, output)
    (parts / "text").rename(output)
    shutil.rmtree(parts)


def write_index(found: NGramsDecontFilter, evaluations: Iterable[str], folder: Path) -> None:
    """Writes the hashes of each evaluation's n-grams. datatrove's own step for that needs the package lighteval."""
    folder.mkdir(exist_ok=True)
    size, kind = found.config.n_grams, found.config.hash_config.np_descr
    for number, address in enumerate(evaluations):
        hashes: set[int] = set()
        for text in texts_of(address):
            words = found.tokenizer.word_tokenize(simplify_text(text, found.config.norm_config))
            hashes.update(found.hash_func(" ".join(each)) for each in ngrams(words, size))
        with replacing_file(folder / f"{number}-{Path(address).name}.index.hashes") as stream:
            stream.write(np.array(sorted(hashes), dtype=kind).tobytes())


def texts_of(address: str) -> Iterator[str]:
    """Every string of a JSON file, every cell of a table, every line of a text."""
    if address.endswith(".parquet"):
        yield from strings_in(read_table(Path(address)).to_pylist())
        return
    with fsspec.open(address, "rt", compression="infer", encoding="utf-8", errors="replace") as stream:
        if ".json" in Path(address).suffixes:
            yield from strings_in(json.load(stream))
        else:
            for line in stream:
                yield from line.split("\t")


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each)


def report(counts: list[dict[str, Any]], last: list[dict[str, Any]], output: Path) -> None:
    """Prints how many documents each rule took."""

    def number(found: Any) -> int:
        return int(found["total"] if isinstance(found, dict) else found)

    dropped: Counter[str] = Counter()
    for step in (*counts, *last):
        for name, found in step["stats"].items():
            if name.startswith("dropped_"):
                dropped[name.removeprefix("dropped_")] += number(found)
            elif name == "dropped" and "MinHash" in step["name"]:
                dropped["near duplicates"] += number(found)
    kept = sum(number(step["stats"].get("total", 0)) for step in last if "💽" in step["name"])
    print(f"{output}: {kept:,} of {kept + dropped.total():,} documents")
    for name, found in dropped.most_common():
        print(f"{found:,} dropped: {name}")


if __name__ == "__main__":
    with one_line_errors(), exit_on_signals():
        main()
