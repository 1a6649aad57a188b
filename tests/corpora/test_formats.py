"""Published corpora to plain text: every format, compressed, broken, held out, restarted, and what comes of it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow
import pytest
import zstandard
from pyarrow import parquet
from support.commands import REPOSITORY, run_command, shared_file, truneg_data
from truneg_fairseq.corpora.formats import FORMATS, Source
from truneg_fairseq.corpora.wikipedia import plain_paragraphs, without_quotes

from truneg_fairseq.corpora import extract as extract_module
from truneg_fairseq.corpora import wikipedia
from truneg_fairseq.corpora.extract import ExtractCounts, ExtractSettings, extract, is_held_out
from truneg_fairseq.data.binarize import binarize
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, WordPieceTokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.record import RECORD_NAME, continue_parts, read_record, write_record
from truneg_fairseq.schema import LARGEST_JSON

SCRIPT = REPOSITORY / "data-bin-scripts" / "extract_corpus.py"
DOCUMENTS = [["The cat sat.", "It purred, é 狗."], ["A dog barked."], ["One.", "Two.", "Three."]]
EXPECTED = "".join("".join(f"{line}\n" for line in document) + "\n" for document in DOCUMENTS)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    # Two frames, as parallel compressors write them.
    ".zst": lambda data: b"".join(zstandard.compress(part) for part in (data[:20], data[20:])),
}


def text_of(folder: Path, split: str = "train") -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((folder / split).glob("*.txt")))


def texts(documents: Sequence[Sequence[str]] = DOCUMENTS) -> bytes:
    return "\n\n\n".join("\n".join(document) for document in documents).encode()


def jsonl(documents: Sequence[Sequence[str]] = DOCUMENTS, name: str = "text") -> bytes:
    return "".join(json.dumps({"id": 1, name: "\r\n\n".join(document)}) + "\n" for document in documents).encode()


def run(inputs: object, output: Path, form: str, **options) -> extract_module.Extracted:
    workers = options.pop("workers", 1)
    paths = list(inputs) if isinstance(inputs, list) else [inputs]
    return extract({"train": paths}, output, ExtractSettings(form, **options), workers)


def fails(message: str, call: Callable, *arguments: object, **options: object) -> None:
    with pytest.raises(TrueNegError, match=message) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("compression", COMPRESS)
def test_text_and_jsonl_in_every_compression(compression, tmp_path):
    for kind, content in (("txt", texts()), ("jsonl", jsonl())):
        source = tmp_path / kind / "deep" / f"a.{kind}{compression}"
        source.parent.mkdir(parents=True)
        source.write_bytes(COMPRESS[compression](content))
        result = run(tmp_path / kind, tmp_path / f"out-{kind}", "text")
        assert text_of(tmp_path / f"out-{kind}") == EXPECTED
        assert result.splits == {"train": ExtractCounts(documents=3, lines=6)}


def test_an_empty_folder_is_a_new_one(tmp_path):
    (tmp_path / "source.txt").write_bytes(texts())
    (tmp_path / "out").mkdir()
    run(tmp_path / "source.txt", tmp_path / "out", "text")
    assert text_of(tmp_path / "out") == EXPECTED


def test_zstandards_long_windows(tmp_path):
    """As in Reddit's dumps; a frame of unknown size names the whole window."""
    parameters = zstandard.ZstdCompressionParameters(window_log=31, hash_log=6, chain_log=6)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "a.txt.zst").write_bytes(compressor.compress(texts()) + compressor.flush())
    run(tmp_path / "a.txt.zst", tmp_path / "out", "text")
    assert text_of(tmp_path / "out") == EXPECTED


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_truncated_files_are_no_shorter_corpus(compression, tmp_path):
    source = tmp_path / f"a.txt{compression}"
    whole = COMPRESS[compression](texts() * 50)
    for cut in (len(whole) - 9, len(whole) // 2):
        source.write_bytes(whole[:cut])
        fails(r"a\.txt\.\w+: is truncated or broken \(.+\); get the file again", run, source, tmp_path / "out", "text")
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob("out.parts/**/*.txt"))
        shutil.rmtree(tmp_path / "out.parts")
    source.write_bytes(b"not compressed at all")
    fails("is truncated or broken", run, source, tmp_path / "out", "text")


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_what_follows_a_stream_is_another_one_or_an_error(compression, tmp_path):
    """Several streams, as pbzip2, bgzip and cat make them; of the second one three bytes are damaged."""
    source, half = tmp_path / f"a.txt{compression}", len(texts()) // 2
    first, second = (COMPRESS[compression](part) for part in (texts()[:half], texts()[half:]))
    source.write_bytes(first + second)
    run(source, tmp_path / "out", "text")
    assert text_of(tmp_path / "out") == EXPECTED
    for rest in (b"\xff\xff\xff" + second[3:], b"garbage"):
        source.write_bytes(first + rest)
        fails("is truncated or broken", run, source, tmp_path / "broken", "text")
        shutil.rmtree(tmp_path / "broken.parts")
    if compression == ".xz":
        source.write_bytes(first + bytes(4) + second + bytes(8))
        run(source, tmp_path / "padded", "text")
        assert text_of(tmp_path / "padded") == EXPECTED


def test_parquet(tmp_path):
    content = {"id": [1, 2, 3, 4], "content": ["\n".join(d) for d in DOCUMENTS] + [None]}
    source = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(content), source, row_group_size=2)
    result = run(source, tmp_path / "out", "text", field="content")
    assert text_of(tmp_path / "out") == EXPECTED
    assert result.splits["train"] == ExtractCounts(documents=3, lines=6, empty=1)
    fails(r"a\.parquet: has no column 'text' but 'id', 'content'; name", run, source, tmp_path / "b", "text")
    fails(r"row 0: field 'id' is int; expected a string", run, source, tmp_path / "c", "text", field="id")
    source.write_bytes(source.read_bytes()[:-20])
    fails(r"a\.parquet: is truncated or no parquet", run, source, tmp_path / "d", "text", field="content")


def test_a_parquet_file_with_a_lost_byte(tmp_path):
    """Read all the same, or refused; the number of rows is one of these bytes."""
    source = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["One.", "Two."]}), source)
    content, refused = source.read_bytes(), set()
    for place in range(len(content)):
        source.write_bytes(content[:place] + b"\0" + content[place + 1 :])
        try:
            list(FORMATS["text"].read(Source(source)))
        except TrueNegError as error:
            refused.add(str(error).removeprefix(f"{source}: ").split(" (")[0])
    assert {
        "is damaged: its footer says 0 rows, its row groups 2; get the file again",
        "is truncated or no parquet",
    } <= refused


def test_books_are_one_document_each(tmp_path):
    for number, document in enumerate(DOCUMENTS):
        (tmp_path / "books").mkdir(exist_ok=True)
        (tmp_path / "books" / f"{number}.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(document).encode())
    (tmp_path / "books" / "9.txt").write_text("\n \n")
    result = run(tmp_path / "books", tmp_path / "out", "books")
    assert text_of(tmp_path / "out") == EXPECTED
    assert result.splits["train"] == ExtractCounts(documents=3, lines=6, empty=1)


def test_wikitext_opens_articles_at_titles(tmp_path):
    source = tmp_path / "wiki.train.raw"
    source.write_text(
        " \n = First = \n \n Text = here . \n = not a title = \n \n = = Part = = \n More . \n"
        " \n = nor this = \n and .\n \n = Second = \n \n End . \n"
    )
    assert run(source, tmp_path / "out", "wikitext").splits["train"] == ExtractCounts(documents=2, lines=9)
    assert text_of(tmp_path / "out") == (
        "= First =\nText = here .\n= not a title =\n= = Part = =\nMore .\n= nor this =\nand .\n\n= Second =\nEnd .\n\n"
    )


def test_wikitext_2_has_the_articles_it_is_said_to_have(tmp_path):
    for name, articles in (("wiki.train.tokens", 600), ("wiki.valid.raw", 60), ("wiki.test.tokens", 60)):
        source = shared_file(f"wikitext-2/{name}")
        assert run(source, tmp_path / name, "wikitext").splits["train"].documents == articles


MARKUP = """{{Infobox person
| name = Ada
* no list
}}
[[File:Ada.jpg|thumb|A caption with [[a link]].]] [[Datei:x.png]] [[Bild:Ada 2.JPG|mini|Noch eins]] [[Special:x|shown]]
'''Ada Lovelace''' (1815&nbsp;&ndash; 1852) was an [[English people|English]] ''[[mathematician]]''.<ref>{{x}}</ref>
It's [[:Category:Women|women]]<!-- hidden
-->, {{convert|10|km}}<nowiki>[[kept]]</nowiki>, H<sub>2</sub>O.<br/>New line.

== Life ==
* item
# number
; term : definition
<ul><li>html item</li></ul>

{| class="wikitable"
| 1 || 2
|}
She met [http://example.org someone] and http://example.com in <math>a^2</math>.
<gallery>
File:x.jpg|picture
</gallery>
[[Category:People]]
[[de:Ada]]
"""
PROSE = [
    "shown",
    "Ada Lovelace (1815 – 1852) was an English mathematician.",
    "It's women, [[kept]], H2O.",
    "New line.",
    "She met someone and in .",
]


def dump(*pages: str) -> str:
    space = '<namespace key="6">Datei</namespace><namespace key="0" />'
    return (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="de">'
        f"<siteinfo><namespaces>{space}</namespaces></siteinfo>{''.join(pages)}</mediawiki>"
    )


def page(text: str, namespace: int = 0, extra: str = "") -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f"<page><title>T</title><ns>{namespace}</ns>{extra}<revision><text>{escaped}</text></revision></page>"


def test_wikipedia(tmp_path):
    source = tmp_path / "dewiki-pages-articles.xml.bz2"
    redirect = page("#REDIRECT [[x]]\n\nLeft over.", extra='<redirect title="x" />')
    content = dump(page(MARKUP), redirect, page("A talk.", namespace=1), page("Second '''one'''."))
    source.write_bytes(bz2.compress(content.encode()))
    result = run(source, tmp_path / "out", "wikipedia")
    assert text_of(tmp_path / "out").split("\n") == [*PROSE, "", "Second one.", "", ""]
    assert result.splits["train"] == ExtractCounts(documents=2, lines=6, empty=2)
    for broken, message in (
        (content.encode()[:-30], r"is truncated or no XML \(.+\); expected Wikipedia's pages-articles.xml"),
        (b"\x00", "no XML"),
        (b"<html></html>", "has no page"),
    ):
        source.write_bytes(bz2.compress(broken))
        fails(message, run, source, tmp_path / "b", "wikipedia")


def test_a_dump_does_not_stay_in_memory(tmp_path):
    source = tmp_path / "a.xml"
    source.write_text(dump(page("Short."), *(page("x" * 50_000, namespace=1) for _ in range(200))))
    tracemalloc.start()
    try:
        run(source, tmp_path / "out", "wikipedia")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_odd_markup_is_no_failure():
    assert plain_paragraphs("[[unclosed {{ <ref> a &#x110000; '''b") != []
    assert plain_paragraphs("[[12:30]] at [[War: a story]]") == ["12:30 at War: a story"]


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ("''italic'' and '''bold''' and '''''both''''', don't", "italic and bold and both, don't"),
        ("''''four''''", "'four'"),
        ("'''''''seven'''''", "''seven"),
        ("''Time'''s person of the year.", "Time's person of the year."),
        ("''[[Time (magazine)|Time]]'''s person; ''[[Lost]]'''s fans.", "Time's person; Lost's fans."),
        (
            "''Time'''s Person of the Year; ''The Simpsons'''s fans.",
            "Time's Person of the Year; The Simpsons's fans.",
        ),
        ("Homère écrit l'''Odyssée'' en grec.", "Homère écrit l'Odyssée en grec."),
        ("Le '''poète''' dit que l'''Iliade'' est la '''première'''.", "Le poète dit que l'Iliade est la première."),
        ("A '''b c d'''e'' f", "A b c de f"),
        ("A '''tis'' b", "A 'tis b"),
        ("''one '''two''' three'' '''Peter'''s", "one two three Peters"),
        ("''open '''''more", "open more"),
        ("''a''''b", "a''b"),
        ("'''''both '''italic''", "both italic"),
        ("'''bold", "bold"),
        ("''Time''<nowiki/>'s and ''Time''<nowiki>'</nowiki>s and ''[[Time]]''{{'}}s", "Time's and Time's and Times"),
        ("''{{lang|fr|Le Monde}}'''s page", "'s page"),
        ("<nowiki>''x''</nowiki> y &#39;&#39;z&#39;&#39;", "''x'' y ''z''"),
        ("__NOTOC__ A__FORCETOC__ __init__", "A __init__"),
        ("''", None),
    ],
)
def test_quotes_and_switches(markup, shown):
    assert plain_paragraphs(f"First.\n{markup}\nLast.") == ["First.", *([shown] if shown else []), "Last."]


def test_quotes_of_a_long_line_take_little_time():
    begin = time.monotonic()
    assert without_quotes("''a'''s " * 200_000) == "a's " * 200_000
    assert without_quotes("'" * 1_000_000) == "'" * 999_995
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    "pair",
    [
        "{{a| }}",
        "{{{ }}}",
        "[[a| ]]",
        "<b> </b>",
        "<div> </div>",
        "{| |}",
        "[http://a ]",
        "'' ''",
        "<ref> </ref>",
        "* ",
    ],
)
def test_deep_markup_is_no_failure(pair):
    """Nested deep, closed or not: mwparserfromhell calls itself, and an article that is too deep for it is left out."""
    opening, closing = pair.split(" ")
    for markup in (opening * 600, opening * 600 + "x" + closing * 600, closing * 600):
        pages = dump(page(f"Before.\n\n{markup}\n\nAfter."), page("Fine."))
        deep, fine = wikipedia.read_articles(io.BytesIO(pages.encode()), "a.xml")
        assert fine == ["Fine."]
        assert deep is None or deep[0] == "Before."
    assert deep is not None, "closing alone is no depth"


def test_markup_too_deep_to_parse_leaves_out_its_article_alone(tmp_path):
    (tmp_path / "a.xml").write_text(dump(page("{{{" * 600 + "}}}" * 600), page("Fine.")))
    result = run(tmp_path / "a.xml", tmp_path / "out", "wikipedia").splits["train"]
    assert (result.documents, result.empty) == (1, 1)


@pytest.mark.parametrize("opening", ["{{a|", "[[a|", "[http://a ", "<a>", "<a x='", "<!--"])
def test_thousands_of_brackets_that_are_never_closed_are_not_parsed(opening, monkeypatch):
    """mwparserfromhell would take seconds to minutes."""
    monkeypatch.setattr(wikipedia, "plain_paragraphs", lambda markup, _: [markup])
    closed = "[[a]] {{b}} <i>c</i> <br>\n" * 2_000
    pages = dump(page(opening * 8_000), page(closed))
    assert [*wikipedia.read_articles(io.BytesIO(pages.encode()), "a.xml")] == [None, [closed]]


def archive(files: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as made:
        made.addfile(folder := tarfile.TarInfo("openwebtext"))
        folder.type = tarfile.DIRTYPE
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_openwebtext_as_it_is_published(tmp_path):
    members = {f"{number:07d}.txt": "\n\n".join(document).encode() for number, document in enumerate(DOCUMENTS)}
    subset = archive(members, "w:xz")
    (tmp_path / "a.tar.xz").write_bytes(archive({"openwebtext/subset00-1_data.xz": subset}, "w:xz"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "urlsf_subset00-1_data.xz").write_bytes(subset)
    (tmp_path / "folder" / "README").write_text("not this")
    for number, source in enumerate((tmp_path / "a.tar.xz", tmp_path / "folder")):
        assert run(source, tmp_path / f"out{number}", "openwebtext").splits["train"].documents == 3
        assert text_of(tmp_path / f"out{number}") == EXPECTED
    big = archive({"openwebtext/s_data.xz": archive({"1.txt": texts() * 400}, "w:xz")[:-60]}, "w")
    for name, content in (("b.tar", big), ("b_data.xz", subset[:-70]), ("c_data.xz", lzma.compress(b"text"))):
        (tmp_path / name).write_bytes(content)
        fails(f"{name}: is truncated or broken", run, tmp_path / name, tmp_path / "b", "openwebtext")
        shutil.rmtree(tmp_path / "b.parts")
    (tmp_path / "d.tar").write_bytes(archive({"x/1.txt": b"good", "x/2.txt": b"b\xff"}))
    fails(r"d\.tar:x/2\.txt: not UTF-8 at byte 1", run, tmp_path / "d.tar", tmp_path / "c", "openwebtext")


def test_what_is_wrong_with_jsonl(tmp_path):
    source = tmp_path / "a.jsonl"
    good = b'{"text": "x"}\n'
    for content, message in (
        (good + b"{", r"a\.jsonl: line 2 is no JSON \(.*\); expected one object a line"),
        (good + b"[1]", r"line 2 has no field 'text' but list"),
        (
            good + b"\n" + b'{"body": "x", "id": 1}',
            r"line 3 has no field 'text' but 'body', 'id'; name the text's with",
        ),
        (good + b'{"text": 3}', r"line 2: field 'text' is int; expected a string"),
        (good + b'{"text": "a\\ud800"}', r"line 2: has half a surrogate pair at character 1"),
        (good + b'{"text": "\xe9"}', r"a\.jsonl: not UTF-8 at byte 24"),
    ):
        source.write_bytes(content)
        fails(message, run, source, tmp_path / "out", "text")
    assert not (tmp_path / "out").exists()
    source.write_bytes(good + b'{"text": "a\\ud800"}\n{"text": "\xe9"}\n{"text": "\\ud83d\\ude00"}\n')
    shutil.rmtree(tmp_path / "out.parts")
    skipped = run(source, tmp_path / "s", "text", broken_utf8="skip").splits["train"]
    assert (skipped.documents, skipped.skipped, skipped.replaced) == (2, 2, 0)
    replaced = run(source, tmp_path / "r", "text", broken_utf8="replace").splits["train"]
    assert (replaced.documents, replaced.skipped, replaced.replaced) == (4, 0, 2)
    source.write_bytes(good + b'{"text": "\xe9"}\n{"text": "a\\ud800"}\n{"text": "\xe9"}\n{"no": 1}\n')
    fails("line 5 has no field 'text'", run, source, tmp_path / "t", "text", broken_utf8="skip")
    assert text_of(tmp_path / "r") == "x\n\na\ufffd\n\n\ufffd\n\n\U0001f600\n\n"


def test_old_macs_and_control_characters(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\r\rthree \x0c\x0b four\r\n\r\nfive")
    run(tmp_path / "a.txt", tmp_path / "out", "text")
    assert text_of(tmp_path / "out") == "one\ntwo\n\nthree \x0c\x0b four\n\nfive\n\n"


def test_files_of_one_name_are_held_out_by_their_folders(tmp_path):
    for number in range(30):
        (tmp_path / "corpus" / str(number)).mkdir(parents=True)
        (tmp_path / "corpus" / str(number) / "text.txt").write_text(f"Document {number}.\n")
    run(tmp_path / "corpus", tmp_path / "out", "text", valid_every=3)
    expected = [number for number in range(30) if is_held_out(f"{number}/text.txt", 0, 3)]
    assert 0 < len(expected) < 20
    valid = text_of(tmp_path / "out", "valid").split("\n\n")
    assert sorted(valid[:-1]) == sorted(f"Document {number}." for number in expected)


def test_held_out_documents(tmp_path):
    documents = [[f"Document {number}."] for number in range(400)]
    (tmp_path / "a.txt").write_bytes(texts(documents))
    result = run(tmp_path / "a.txt", tmp_path / "out", "text", valid_every=10)
    train, valid = text_of(tmp_path / "out").split("\n\n"), text_of(tmp_path / "out", "valid").split("\n\n")
    assert sorted([*train, *valid]) == sorted(["", "", *(line for (line,) in documents)])
    assert valid[:-1] == [f"Document {n}." for n in range(400) if is_held_out("a.txt", n, 10)]
    assert result.splits["valid"].documents == len(valid) - 1
    assert 20 < len(valid) < 70
    assert [is_held_out("b", n, 3) for n in range(9)] == [zlib.crc32(f"b {n}".encode()) % 3 == 0 for n in range(9)]
    assert is_held_out("b", 0, 3)
    both = {"train": [tmp_path / "a.txt"], "test": [tmp_path / "a.txt"]}
    apart = extract(both, tmp_path / "both", ExtractSettings("text", valid_every=10)).splits
    assert (apart["test"].documents, apart["train"], apart["valid"]) == (
        400,
        *(result.splits[s] for s in ("train", "valid")),
    )
    few = tmp_path / "few.txt"
    few.write_text("one")
    fails(
        "--valid: none of its one in 1000 documents has any text", run, few, tmp_path / "few", "text", valid_every=1000
    )


def corpus(folder: Path) -> Path:
    folder.mkdir()
    for number in range(7):
        (folder / f"{number}.txt").write_bytes(
            texts([[f"{number} {line}" for line in document] for document in DOCUMENTS])
        )
    return folder


def test_processes_and_shares_change_nothing(tmp_path):
    source = corpus(tmp_path / "source")
    run(source, tmp_path / "one", "text", valid_every=3)
    run(source, tmp_path / "two", "text", valid_every=3, share_bytes=150, workers=2)
    assert len(list((tmp_path / "two" / "train").iterdir())) > 2
    for split in ("train", "valid"):
        assert text_of(tmp_path / "two", split) == text_of(tmp_path / "one", split) != ""
        assert all(path.stat().st_size for path in (tmp_path / "two" / split).iterdir())
    assert len(list((tmp_path / "two" / "valid").iterdir())) < len(list((tmp_path / "two" / "train").iterdir()))


def test_a_failure_keeps_what_is_done(tmp_path, monkeypatch):
    source = corpus(tmp_path / "source")
    broken = source / "5.txt"
    content = broken.read_bytes()
    broken.write_bytes(b"\xff" + content[1:])
    stat = broken.stat()
    fails(r"5\.txt: not UTF-8 at byte 0", run, source, tmp_path / "out", "text", share_bytes=1)
    parts = tmp_path / "out.parts"
    done = {path: path.stat().st_mtime_ns for path in (parts / "train").iterdir()}
    assert len(done) == 5
    shutil.copytree(parts, tmp_path / "skip.parts")
    skipped = run(source, tmp_path / "skip", "text", share_bytes=1, broken_utf8="skip")  # as the message advises
    assert skipped.splits["train"].skipped == 1
    assert {tmp_path / "skip" / "train" / path.name for path in done} <= {*(tmp_path / "skip" / "train").iterdir()}
    shutil.copytree(parts, tmp_path / "other.parts")
    other = {"share_bytes": 1, "broken_utf8": "skip", "valid_every": 9}
    fails(r"made of valid_every 0, expected 9", run, source, tmp_path / "other", "text", **other)
    broken.write_bytes(content)
    fails(r"other text \(.*5\.txt has changed since\)", run, source, tmp_path / "out", "text", share_bytes=1)
    # As if it had been right from the start: the disk was full, say.
    os.utime(broken, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    result = run(source, tmp_path / "out", "text", share_bytes=1)
    assert result.splits["train"] == ExtractCounts(documents=21, lines=42)
    assert {tmp_path / "out" / "train" / path.name: time for path, time in done.items()}.items() <= {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "train").iterdir()
    }.items()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["record.json", "train"]
    again = run(source, tmp_path / "out", "text", share_bytes=1)
    assert (again.made, again.splits) == (False, result.splits)


def test_the_record_of_very_many_files_is_read_again(tmp_path):
    facts = [[f"/{'x' * 3_400}/{number:07d}.txt", 1, 2] for number in range(10_000)]
    wanted = {"text": {"train": facts}}
    write_record(tmp_path, {"settings": wanted})
    assert (tmp_path / RECORD_NAME).stat().st_size > LARGEST_JSON
    assert read_record(tmp_path)["settings"] == wanted
    continue_parts(tmp_path, wanted)


def test_unfit_inputs(tmp_path):
    good = tmp_path / "a.txt"
    good.write_text("x")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "folder").mkdir()
    for message, inputs, options in (
        (r"none\.txt: no such file; --train expects", tmp_path / "none.txt", {}),
        (r"empty\.txt: the file is empty", [good, tmp_path / "empty.txt"], {}),
        (r"--train: none of its 1 files has any text", tmp_path / "blank.txt", {}),
        (r"folder: has no \.txt, \.jsonl, \.parquet", tmp_path / "folder", {}),
        (r"x\.pdf: expected \.txt, \.jsonl, \.parquet, or compressed", tmp_path / "x.pdf", {}),
        (r"--train: names .*a\.txt twice", [good, good], {}),
        (r"--train: names .*a\.txt twice", [good, Path(os.path.relpath(good))], {}),
        ("no text: expected files or folders", [], {}),
        ("--workers 0: expected 1 or more", good, {"workers": 0}),
        ("--valid-every 1: expected 2 or more", good, {"valid_every": 1}),
        ("--broken-utf8 x: expected one of", good, {"broken_utf8": "x"}),
        ("--field body: has no effect, as no file is .jsonl", good, {"field": "body"}),
    ):
        (tmp_path / "x.pdf").write_text("x")
        fails(message, run, inputs, tmp_path / "out", "text", **options)
        assert not (tmp_path / "out").exists()
        shutil.rmtree(tmp_path / "out.parts", ignore_errors=True)
    fails("--field body: is of --format text; books has none", run, good, tmp_path / "out", "books", field="body")
    fails("--format x: expected one of text, books", run, good, tmp_path / "out", "x")
    both = {"train": [good], "valid": [good]}
    fails(
        "--valid-every 9: expected 2 or more, with --train and without --valid",
        extract,
        both,
        tmp_path / "o",
        ExtractSettings("text", valid_every=9),
    )


def test_missing_packages_are_one_line(tmp_path, monkeypatch):
    for module, name, form in (
        ("pyarrow", "a.parquet", "text"),
        ("zstandard", "a.txt.zst", "text"),
        ("mwparserfromhell", "a.xml", "wikipedia"),
    ):
        (tmp_path / name).write_text(dump(page("x")))
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            fails(f"needs the package {module}; pip install {module}", run, tmp_path / name, tmp_path / name[:3], form)


def test_from_a_corpus_to_data_with_the_scripts(tmp_path):
    """Documents stay apart from one end to the other."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(name="body"))
    arguments = (
        "--format",
        "text",
        "--field",
        "body",
        "--train",
        tmp_path / "a.jsonl",
        "--output-dir",
        tmp_path / "out",
    )
    result = run_command([sys.executable, SCRIPT, *arguments])
    assert result.stdout.splitlines()[:2] == [f"{tmp_path / 'out'}: extracted", "train: 3 documents, 6 lines"]
    words = "the cat sat it purred a dog barked one two three . ,".split()
    data = binarize(
        {"train": [tmp_path / "out" / "train"]}, WordPieceTokenizer([*BERT_SPECIALS, *words]), tmp_path / "data"
    )
    assert (data.splits["train"].documents, data.splits["train"].lines, data.splits["train"].blank) == (3, 9, 3)
    given = (*arguments, "--broken-utf8", "skip", "--valid-every", 5, "--workers", 1)
    fails("was made of valid_every 0, expected 5", truneg_data, "extract-corpus", *given)


def test_wikipedias_half_characters_are_replaced_and_counted(tmp_path):
    source = tmp_path / "a.xml"
    source.write_text(dump(page("A &#xD800; b."), page("Fine &#xe9;.")))
    result = run(source, tmp_path / "out", "wikipedia")
    assert text_of(tmp_path / "out").split("\n")[0] == "A \ufffd b."
    assert (result.splits["train"].documents, result.splits["train"].replaced) == (2, 1)


@pytest.mark.parametrize("before", [0, *range(16_110, 16_130)])
def test_forbidden_references_of_the_xml_itself_do_not_end_the_dump(before, tmp_path):
    """Also where the reader's blocks of 16 KiB end within one."""
    source = tmp_path / "a.xml"
    raw = page(f"{'x' * before} A REF b.").replace("REF", "&#xD800; &#55296; &#233;")
    source.write_text(dump(raw, page("Fine.")))
    result = run(source, tmp_path / "out", "wikipedia")
    assert text_of(tmp_path / "out").split("\n")[0].endswith("A \ufffd \ufffd \xe9 b.")
    assert (result.splits["train"].documents, result.splits["train"].replaced) == (2, 1)


def test_a_dump_in_an_unknown_encoding_is_one_line(tmp_path):
    source = tmp_path / "a.xml"
    for encoding in ("klingon", "utf-7"):
        source.write_text(f'<?xml version="1.0" encoding="{encoding}"?>{dump(page("A."))}')
        fails(r"a\.xml: is truncated or no XML", run, source, tmp_path / "out", "wikipedia")


def test_an_archive_cut_at_a_members_border(tmp_path):
    source = tmp_path / "a.tar"
    with tarfile.open(source, "w") as made:
        for name in ("1.txt", "2.txt"):
            made.addfile(info := tarfile.TarInfo(name), io.BytesIO(b""))
            info.size = 8
            made.addfile(info, io.BytesIO(b"the cat\n"))
    whole = source.read_bytes()
    assert run(source, tmp_path / "whole", "openwebtext").splits["train"].documents == 2
    source.write_bytes(whole[: 3 * 512])
    fails("truncated or broken .*without the mark of an archive's end", run, source, tmp_path / "out", "openwebtext")


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("damage", ["damaged", "zero", "cut"])
def test_a_damaged_header_is_no_archives_end(damage, nested, tmp_path):
    whole = archive({f"{number}.txt": b"the cat\n" for number in range(4)})
    at = 512 + 2 * 1024  # the folder's header, and two files
    broken = {
        "damaged": whole[:at] + b"\xff" * 20 + whole[at + 20 :],
        "zero": whole[:at] + bytes(512) + whole[at + 512 :],
        "cut": whole[: at + 100],
    }[damage]
    source = tmp_path / "a.tar"
    source.write_bytes(archive({"b_data.xz": lzma.compress(whole)}) if nested else whole)
    assert run(source, tmp_path / "whole", "openwebtext").splits["train"].documents == 4
    source.write_bytes(archive({"b_data.xz": lzma.compress(broken)}) if nested else broken)
    fails(r"a\.tar: is truncated or broken \(the header of a file in it is", run, source, tmp_path / "o", "openwebtext")


def test_a_name_of_megabytes_is_not_read(tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive_:
        archive_.addfile(tarfile.TarInfo("n" * (1 << 20)))
    (tmp_path / "a.tar").write_bytes(content.getvalue())
    fails(r"damaged: a name of 1,048,590 bytes, expected", run, tmp_path / "a.tar", tmp_path / "out", "openwebtext")


@pytest.mark.parametrize("moment", ["_run", "_put_into_place"])
def test_the_same_command_twice_at_once(moment, tmp_path, monkeypatch):
    """The second command runs from its start to its end before the first one does a step."""
    source = tmp_path / "a.txt"
    source.write_bytes(texts())
    original, ran = getattr(extract_module, moment), []

    def interrupted(*arguments):
        if not ran:
            ran.append(True)
            assert run(source, tmp_path / "out", "text").made
        return original(*arguments)

    monkeypatch.setattr(extract_module, moment, interrupted)
    first = run(source, tmp_path / "out", "text")
    assert not first.made
    assert first.splits == run(source, tmp_path / "other", "text").splits
    assert text_of(tmp_path / "out") == EXPECTED
    assert not (tmp_path / "out.parts").exists()


def test_what_a_kill_has_left_is_swept(tmp_path, monkeypatch):
    source = tmp_path / "a.txt"
    source.write_bytes(texts())

    def killed(parts, *_):
        for name in (".train-000000.txt.0a1b.part", "train-000007.txt"):
            (parts / "valid").mkdir(exist_ok=True)
            (parts / "valid" / name).write_text("half a line")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(extract_module, "_run", killed)
        run(source, tmp_path / "out", "text")
    run(source, tmp_path / "out", "text")
    assert text_of(tmp_path / "out") == EXPECTED
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "valid" in path.parts]
