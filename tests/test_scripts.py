"""The scripts of data-bin-scripts/: each runs, and what it writes is what the package reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.commands import REPOSITORY, command_environment, run_command

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
