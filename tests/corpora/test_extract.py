"""Datasets and files to plain text: every kind of file, compressed, broken, held out, restarted; lines of text."""

from __future__ import annotations

import bz2
import functools
import gzip
import json
import lzma
import runpy
import shutil
import threading
from collections.abc import Callable, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow
import pytest
from pyarrow import parquet
from support.commands import REPOSITORY, shared_file, truneg_data

import truneg_fairseq.corpora.extract as extract_module
from truneg_fairseq.corpora.extract import ExtractOptions, articles, extract, find_files, is_held_out
from truneg_fairseq.corpora.text import read_lines
from truneg_fairseq.errors import TrueNegError

DOCUMENTS = [["The cat sat.", "It purred, é 狗."], ["A dog barked."], ["One.", "Two.", "Three."]]
EXPECTED = "".join("".join(f"{line}\n" for line in document) + "\n" for document in DOCUMENTS)


def zstd(data: bytes) -> bytes:
    """Two frames, as parallel compressors write them."""
    return b"".join(pyarrow.compress(part, codec="zstd", asbytes=True) for part in (data[:20], data[20:]))


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def plain(documents: Sequence[Sequence[str]] = DOCUMENTS) -> bytes:
    return b"\xef\xbb\xbf" + "\n\n\n".join("\r\n".join(document) for document in documents).encode()


def json_lines() -> bytes:
    return "".join(json.dumps({"id": 1, "text": "\r\n\n".join(document)}) + "\n" for document in DOCUMENTS).encode()


def written(folder: Path, split: str = "train") -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((folder / split).glob("*.txt")))


def run(inputs: object, output: Path, **options) -> dict[str, dict[str, int]]:
    counts = extract(ExtractOptions(train=[str(inputs)], output_dir=output, workers=1, **options))
    return {split: dict(found) for split, found in counts.items()}


KINDS = (("a.txt", plain()), ("a.jsonl", json_lines()), ("a.json", json_lines()))
NAMES = ("part-00000", ""), ("part-00000.gz", ".xz"), ("A.JSONL", ".zst"), ("a.jsonl.zstd", ".zst"), ("a.txt", ".gz")


@pytest.mark.parametrize(
    ("name", "content", "compression"),
    [
        *((f"{name}{ending}", content, ending) for name, content in KINDS for ending in COMPRESS),
        *((name, json_lines(), ending) for name, ending in NAMES),
    ],
)
def test_every_file_is_known_by_what_it_holds(name, content, compression, tmp_path):
    source = tmp_path / "corpus" / "AA" / name
    (source.parent / ".cache").mkdir(parents=True)
    source.write_bytes(COMPRESS[compression](content))
    (tmp_path / "corpus" / "README.md").write_text("not this")
    for hidden in ("._a.txt", ".cache/a.txt"):  # macOS writes the first
        (source.parent / hidden).write_bytes(b"\0\x05")
    assert run(tmp_path / "corpus", tmp_path / "out") == {"train": {"documents": 3, "lines": 6, "replaced": 0}}
    assert written(tmp_path / "out") == EXPECTED
    assert run(f"file://{source.parent}/[!.]*", tmp_path / "pattern")["train"]["documents"] == 3


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_a_truncated_file_is_an_error(compression, tmp_path):
    source = tmp_path / f"a.txt{compression}"
    source.write_bytes(COMPRESS[compression](plain() * 50)[:-9])
    with pytest.raises(TrueNegError, match=rf"a\.txt{compression}: is truncated or damaged \(.*; get the file again"):
        run(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("out.parts/**/*.txt"))


def test_parquet(tmp_path):
    texts = ["\n".join(document) for document in DOCUMENTS] + [None]
    for name in ("text", "content"):
        table = pyarrow.table({"id": [1, 2, 3, 4], name: texts})
        parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
    assert run(tmp_path / "text.parquet", tmp_path / "out")["train"]["documents"] == 3
    assert written(tmp_path / "out") == EXPECTED
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "text.parquet").read_bytes()[:-9])
    with pytest.raises(TrueNegError, match=r"cut\.parquet: is truncated or damaged"):
        run(tmp_path / "cut.parquet", tmp_path / "other")
    shutil.rmtree(tmp_path / "other.parts")
    with pytest.raises(TrueNegError, match=r"content\.parquet: has no field 'text' with the text, but id, content"):
        run(tmp_path / "content.parquet", tmp_path / "other")
    (tmp_path / "a.ndjson").write_text('{"text": "The cat sat."}\n[]')
    with pytest.raises(TrueNegError, match=r"a\.ndjson: line 2: has no field 'text'"):
        run(tmp_path / "a.ndjson", tmp_path / "lines")


WIKITEXT = (
    " \n = First = \n \n Text = here . \n = not a title = \n \n = = Part = = \n More . \n"
    " \n = nor this = \n and .\n \n = Second = \n \n End . \n"
)
WIKITEXT_TEXT = (
    "= First =\nText = here .\n= not a title =\n= = Part = =\nMore .\n= nor this =\nand .\n\n= Second =\nEnd .\n\n"
)


def test_wikitext_2_has_the_articles_it_is_said_to_have():
    for name, count in (("wiki.train.tokens", 600), ("wiki.valid.raw", 60), ("wiki.test.tokens", 60)):
        with shared_file(f"wikitext-2/{name}").open(encoding="utf-8") as lines:
            assert len(list(articles(lines))) == count


def test_a_dataset_with_its_splits(tmp_path):
    """A folder, which `datasets` reads as it reads one of the Hub."""
    folder = tmp_path / "wikitext-2"
    folder.mkdir()
    for split in ("train", "validation"):
        rows = {"text": [line + "\n" for line in WIKITEXT.splitlines()]}
        parquet.write_table(pyarrow.table(rows), folder / f"{split}-00000-of-00001.parquet")
    truneg_data("text", "--dataset", folder, "--output-dir", tmp_path / "out", "--workers", 1)
    assert written(tmp_path / "out") == written(tmp_path / "out", "valid") == WIKITEXT_TEXT

    rows = tmp_path / "wikitext-docs"  # whose rows are documents
    rows.mkdir()
    (rows / "train.jsonl").write_bytes(json_lines())
    truneg_data("text", "--dataset", rows, "--output-dir", tmp_path / "docs", "--workers", 1)
    assert written(tmp_path / "docs") == EXPECTED


def test_a_file_of_a_web_server(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(json_lines()))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run(f"http://127.0.0.1:{server.server_port}/a.jsonl.gz", tmp_path / "out")
        server.shutdown()
    assert written(tmp_path / "out") == EXPECTED


def test_broken_characters_are_replaced_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"The \xff cat\nsat.\n")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "a \\ud800 \\ud83d\\ude00 b"}')
    assert run(tmp_path, tmp_path / "out")["train"] == {"documents": 2, "lines": 3, "replaced": 2}
    assert written(tmp_path / "out") == "The \ufffd cat\nsat.\n\na \ufffd \U0001f600 b\n\n"


def test_held_out_documents_depend_only_on_file_name_and_number(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{number}\n\n" for number in range(200)))
    counts = run(tmp_path / "a.txt", tmp_path / "out", valid_every=10)
    held_out = [str(number) for number in range(200) if is_held_out("a.txt", number, 10)]
    assert 10 < len(held_out) < 40
    assert written(tmp_path / "out", "valid").split() == held_out
    assert counts["train"]["documents"] + counts["valid"]["documents"] == 200


def test_a_failed_run_goes_on_and_a_finished_one_is_kept(tmp_path, monkeypatch):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in "ab":
        (corpus / f"{name}.txt").write_bytes(plain())
    broken = json_lines()[:-9]
    (corpus / "c.jsonl").write_bytes(broken)
    with pytest.raises(TrueNegError, match=r"c\.jsonl: line 3: is not JSON"):
        run(corpus, tmp_path / "out")
    spy = Mock(side_effect=extract_module._extract_part)
    monkeypatch.setattr(extract_module, "_extract_part", spy)
    with pytest.raises(TrueNegError, match="was made of another text"):
        run(corpus / "a.txt", tmp_path / "out")
    (corpus / "c.jsonl").write_bytes(broken.rpartition(b"\n")[0].ljust(len(broken)))
    counts = run(corpus, tmp_path / "out")
    assert counts["train"]["documents"] == 8
    assert not (tmp_path / "out.parts").exists()
    assert run(corpus, tmp_path / "out") == counts
    assert [call.args[2].name for call in spy.call_args_list] == ["train-00002"]


def test_unfit_inputs(tmp_path):
    (tmp_path / "a.xml").write_text("<mediawiki/>")
    with pytest.raises(TrueNegError, match=r"a\.xml: expected a file or folder of \.txt, \.raw, \.parquet"):
        find_files(str(tmp_path / "a.xml"))
    for name in ("none.txt", "none*.gz"):
        with pytest.raises(TrueNegError, match=r"none.*: no such file or folder"):
            find_files(str(tmp_path / name))
    (tmp_path / "wiki [1].txt").write_text("One.")
    assert [size for _, size in find_files(str(tmp_path / "wiki [1].txt"))] == [4]
    (tmp_path / "of no bytes.txt").touch()
    with pytest.raises(TrueNegError, match="--valid: no document has any text"):
        run(tmp_path / "wiki [1].txt", tmp_path / "two", valid=[str(tmp_path / "of no bytes.txt")])
    with pytest.raises(TrueNegError, match="expected either --dataset, or files"):
        extract(ExtractOptions(output_dir=tmp_path / "out"))
    (tmp_path / "a.txt").write_bytes("The cat.".encode("utf-16"))
    with pytest.raises(TrueNegError, match=r"a\.txt: is a binary file, or text in UTF-16; expected text in UTF-8"):
        run(tmp_path / "a.txt", tmp_path / "utf-16")
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(TrueNegError, match="--train: no document has any text"):
        run(tmp_path / "blank.txt", tmp_path / "out")


NOT_TEXT = {
    "lines.txt": b'{"text": "The cat sat."}\n',
    "marked.txt": b'\xef\xbb\xbf{"text": "The cat sat."}\n',
    "table.csv": b"text,label\nThe cat sat.,1\n",
    "packed.gz": b"\x1f\x8b\x08",
    "binary.txt": b"a\0b\0",
}


@pytest.mark.parametrize("name", NOT_TEXT)
def test_what_is_no_plain_text_is_refused_wherever_text_is_read(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(NOT_TEXT[name])
    message = rf"{name}: is not plain text; make it so with 'truneg data text' first"
    with pytest.raises(TrueNegError, match=message):
        list(read_lines(path))
    texts = runpy.run_path(str(REPOSITORY / "user_dir_examples" / "huggingface" / "train.py"))["texts"]
    with pytest.raises(TrueNegError, match=message):
        list(texts(SimpleNamespace(train_file=[str(path)], dataset_name=None), "train"))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfThe cat\r\nsat.\x0c\n")
    assert list(read_lines(tmp_path / "a.txt")) == ["The cat", "sat.\x0c"]


def test_broken_utf8_is_named_by_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"The cat\n\xff\n")
    with pytest.raises(TrueNegError, match=r"a\.txt: line 2 is not UTF-8 \(invalid start byte at its byte 1\)"):
        list(read_lines(tmp_path / "a.txt"))
