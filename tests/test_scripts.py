"""The scripts of data-bin-scripts/: each runs, and what it writes is what the package reads."""

from __future__ import annotations

import gzip
import json
import lzma
import runpy
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from support.cli_runs import assert_one_line
from support.commands import REPOSITORY, command_environment, run_command, shared_file

from truneg_fairseq.synonyms import SourceOptions, build_table
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

SCRIPTS = REPOSITORY / "data-bin-scripts"


def run_script(name: str, *arguments: object, check: bool = True, **environment: object):
    """Runs a script as a user does; variables of the environment by their names."""
    env = command_environment(**{name: str(value) for name, value in environment.items()})
    return run_command([sys.executable, SCRIPTS / name, *arguments], check=check, env=env)


def dictionary(folder: Path, words: str) -> Path:
    folder.mkdir()
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words.split()), encoding="utf-8")
    return folder


def pairs(data: Path, tsv: Path, source: str = "tsv") -> set[tuple[str, str]]:
    symbols = read_symbols(data / "dict.txt")
    table = build_table(source, Vocabulary.from_symbols(symbols, "words"), SourceOptions(tsv=tsv))
    return {(symbols[gold], symbols[other]) for gold, other in zip(table.gold, table.synonym, strict=True)}


def test_word_vectors_become_the_list_of_each_words_nearest_words(tmp_path):
    pytest.importorskip("gensim")
    data = dictionary(tmp_path / "data", "hot cold warm the paris ete far")
    text = "hot 1 0\nwarm 1 0.1\ncold 1 0.2\nthe 1 0.05\nParis -1 0\nété -1 0.1\nlondres -1 -0.05\nfar 0 1\n"
    (tmp_path / "glove.txt").write_text(text, encoding="utf-8")
    (tmp_path / "word2vec.vec").write_text(f"8 2\n{text}", encoding="utf-8")
    for file in ("glove.txt", "word2vec.vec"):
        run_script("vectors_to_tsv.py", tmp_path / file, tmp_path / "v.tsv", "--data", data, "--neighbours", 3)
        lines = dict(line.split("\t", 1) for line in (tmp_path / "v.tsv").read_text(encoding="utf-8").splitlines())
        assert set(lines["hot"].split("\t")) == {"the", "warm", "cold"}
        assert lines.keys() == {"hot", "warm", "cold", "Paris", "été", "far"}, "neither a stop word nor londres"
        assert pairs(data, tmp_path / "v.tsv") >= {("hot", "cold"), ("paris", "ete"), ("ete", "paris")}
    flags = ("--data", data, "--threshold", 0.9)
    run_script("vectors_to_tsv.py", tmp_path / "glove.txt", tmp_path / "near.tsv", *flags)
    near = pairs(data, tmp_path / "near.tsv")
    assert ("hot", "cold") in near
    assert not any("far" in pair for pair in near)


WORDNET = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE LexicalResource SYSTEM "http://globalwordnet.github.io/schemas/WN-LMF-1.1.dtd">
<LexicalResource xmlns:dc="https://globalwordnet.github.io/schemas/dc/">
  <Lexicon id="small" label="small" language="{language}" email="none@example.org" license="x" version="1">
    {entries}
    {synsets}
  </Lexicon>
</LexicalResource>
"""


def write_wordnet(path: Path, language: str, synsets_of: dict[str, list[int]]) -> Path:
    entries = ""
    for number, (form, synsets) in enumerate(synsets_of.items()):
        senses = "".join(f'<Sense id="small-{number}-{each}" synset="small-{each}"/>' for each in synsets)
        lemma = f'<Lemma writtenForm="{form}" partOfSpeech="n"/>'
        entries += f'<LexicalEntry id="small-{number}-n">{lemma}{senses}</LexicalEntry>'
    numbers = sorted({each for synsets in synsets_of.values() for each in synsets})
    synsets = "".join(f'<Synset id="small-{each}" ili="" partOfSpeech="n"/>' for each in numbers)
    path.write_text(WORDNET.format(language=language, entries=entries, synsets=synsets), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("language", "synsets_of", "words", "expected"),
    [
        (
            "en",
            {"car": [1, 2], "motor car": [1], "auto": [1], "railcar": [2], "it": [3], "computing": [3]},
            "car cars auto railcar it computing",
            {"car:auto", "car:railcar", "cars:auto", "cars:railcar", "cars:car", "auto:car", "railcar:car"}
            | {"computing:it"},
        ),
        # "schon" (already) is another word than "schön"; the dictionary has no accents but in "schön".
        ("de", {"schön": [1], "hübsch": [1], "Haus": [2], "Gebäude": [2]}, "schön hübsch schon", {"schön:hübsch"}),
    ],
)
def test_a_wordnet_becomes_the_list_of_each_words_lemmas(tmp_path, language, synsets_of, words, expected):
    pytest.importorskip("wn")
    xml = write_wordnet(tmp_path / "small.xml", language, synsets_of)
    add = f"import wn; wn.add({str(xml)!r}, progress_handler=None)"
    run_command([sys.executable, "-c", add], env=command_environment(HOME=str(tmp_path)))
    data = dictionary(tmp_path / "data", words)
    run_script("wn_to_tsv.py", "small:1", tmp_path / "small.tsv", "--data", data, HOME=tmp_path)
    found = {":".join(pair) for pair in pairs(data, tmp_path / "small.tsv")}
    assert found >= expected
    assert not {pair for pair in found if pair.startswith(("it:", "schon:"))}


DOCUMENTS = [["The cat sat.", "It purred, é 狗."], ["A dog barked."], ["One.", "Two.", "Three."]]
EXPECTED = "".join("".join(f"{line}\n" for line in document) + "\n" for document in DOCUMENTS)
TEXT = b"\xef\xbb\xbf" + "\n\n\n".join("\r\n".join(document) for document in DOCUMENTS).encode()
ROWS = [{"id": 1, "text": "\r\n\n".join(document)} for document in DOCUMENTS]
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def write_parquet(path: Path, texts: list[str | None]) -> None:
    parquet.write_table(pyarrow.table({"id": range(len(texts)), "text": texts}), path)


def extracted(folder: Path, split: str = "train") -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((folder / split).glob("*.txt")))


def test_files_become_text_whatever_their_format_and_a_stopped_run_goes_on(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(TEXT))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(JSON_LINES))
    write_parquet(tmp_path / "a.parquet", [row["text"] for row in ROWS] + [None])
    for name in ("a.txt.xz", "a.jsonl.gz", "a.parquet"):
        output = tmp_path / name.partition(".")[2]
        done = run_script("extract_corpus.py", "--train", tmp_path / name, "--output-dir", output, "--workers", 1)
        assert extracted(output) == EXPECTED
        assert f"{output / 'train'}: 3 documents, 6 lines\n" in done.stdout
    (tmp_path / "broken.txt").write_bytes(b"The \xff cat\nsat.\n")
    told = run_script("extract_corpus.py", "--train", tmp_path / "broken.txt", "--output-dir", tmp_path / "b")
    assert "1 documents, 2 lines, 1 lines with U+FFFD (broken UTF-8)" in told.stdout
    many = tmp_path / "many"
    many.mkdir()
    for number in range(3):
        (many / f"{number}.jsonl").write_bytes(JSON_LINES if number < 2 else JSON_LINES + b"{broken")
    command = ("extract_corpus.py", "--train", f"{many}/*.jsonl", "--valid-every", 2, "--workers", 1)
    assert run_script(*command, "--output-dir", tmp_path / "out", check=False).returncode == 1
    assert not (tmp_path / "out").exists()
    made = sorted((tmp_path / "out.parts" / "done").iterdir())
    times = [path.stat().st_mtime_ns for path in made]
    assert len(made) == 2
    (many / "2.jsonl").write_bytes(JSON_LINES)
    run_script(*command, "--output-dir", tmp_path / "out")
    assert times == [(tmp_path / "out" / "done" / path.name).stat().st_mtime_ns for path in made]
    train, valid = (extracted(tmp_path / "out", split).split("\n\n") for split in ("train", "valid"))
    assert len(train) + len(valid) - 2 == 9
    assert len(train) > 1 and len(valid) > 1
    other = run_script(*command[:3], "--output-dir", tmp_path / "out", check=False)
    assert_one_line(other, "was made with valid_every 2 (now 0)")


WIKITEXT = (
    " \n = First = \n \n Text = here . \n = not a title = \n \n = = Part = = \n More . \n"
    " \n = nor this = \n and .\n \n = Second = \n \n End . \n"
)
WIKITEXT_TEXT = (
    "= First =\nText = here .\n= not a title =\n= = Part = =\nMore .\n= nor this =\nand .\n\n= Second =\nEnd .\n\n"
)


def test_a_dataset_becomes_text_split_by_split_and_wikitext_article_by_article(tmp_path):
    """A folder, which `datasets` reads as it reads one of the Hub."""
    pytest.importorskip("datasets")
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "rows").mkdir()
    for split in ("train", "validation"):
        rows = [line + "\n" for line in WIKITEXT.splitlines()]
        write_parquet(tmp_path / "wikitext-2" / f"{split}-00000-of-00001.parquet", rows)
    (tmp_path / "rows" / "train.jsonl").write_bytes(JSON_LINES)
    for name, expected in (("wikitext-2", WIKITEXT_TEXT), ("rows", EXPECTED)):
        output = tmp_path / f"{name}-text"
        run_script("extract_corpus.py", "--dataset", tmp_path / name, "--output-dir", output, "--workers", 1)
        assert extracted(output) == expected
    assert extracted(tmp_path / "wikitext-2-text", "valid") == WIKITEXT_TEXT
    paths = "".join(f"  - {{split: {split}, path: train.jsonl}}\n" for split in ("valid", "validation"))
    (tmp_path / "rows" / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{paths}---\n")
    both = ("--dataset", tmp_path / "rows", "--output-dir", tmp_path / "both", "--workers", 1)
    told = run_script("extract_corpus.py", *both, check=False)
    assert_one_line(told, "rows: has the splits valid and validation; expected one of them")
    articles = runpy.run_path(str(SCRIPTS / "extract_corpus.py"))["articles"]
    with shared_file("wikitext-2/wiki.valid.raw").open(encoding="utf-8") as lines:
        assert len(list(articles(lines))) == 60
