"""Wordnets of the package wn: a small one in WN-LMF, added to a database of its own."""

from __future__ import annotations

import shutil

import nltk.data
import pytest

from truneg_fairseq.commands.main import main
from truneg_fairseq.synonyms import SourceOptions, SynonymTable, build_table, open_lexicon
from truneg_fairseq.vocabulary import Vocabulary

wn = pytest.importorskip("wn")

WORDNET = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE LexicalResource SYSTEM "http://globalwordnet.github.io/schemas/WN-LMF-1.1.dtd">
<LexicalResource xmlns:dc="https://globalwordnet.github.io/schemas/dc/">
  <Lexicon id="{id}" label="small" language="{language}" email="none@example.org" license="x" version="1">
    {entries}
    {synsets}
  </Lexicon>
</LexicalResource>
"""
ENTRY = """<LexicalEntry id="{id}-{name}-n"><Lemma writtenForm="{form}" partOfSpeech="n"/>{senses}</LexicalEntry>"""


def write(path, name, language, synsets_of):
    entries = ""
    for form, synsets in synsets_of.items():
        key = form.replace(" ", "-")
        senses = "".join(f'<Sense id="{name}-{key}-{n}" synset="{name}-{n}"/>' for n in synsets)
        entries += ENTRY.format(id=name, name=key, form=form, senses=senses)
    numbers = sorted({number for senses in synsets_of.values() for number in senses})
    synsets = "".join(f'<Synset id="{name}-{number}" ili="" partOfSpeech="n"/>' for number in numbers)
    path.write_text(WORDNET.format(id=name, language=language, entries=entries, synsets=synsets), encoding="utf-8")
    return path


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setattr(wn.config, "_dbpath", None, raising=False)
    monkeypatch.setattr(wn.config, "data_directory", tmp_path / "wn")
    english = {"car": [1, 2], "motor car": [1], "auto": [1], "railcar": [2]}
    wn.add(write(tmp_path / "en.xml", "small-en", "en", english), progress_handler=None)
    french = {"voiture": [1], "bagnole": [1], "cote": [2], "côté": [3], "flanc": [3]}
    wn.add(write(tmp_path / "fr.xml", "small-fr", "fr", french), progress_handler=None)


def opened(wordnet):
    return open_lexicon("wn", SourceOptions(wn=wordnet))


def test_lemmas_of_all_synsets(database):
    lexicon = opened("small-en:1")
    assert lexicon.synonyms("car") == ["auto", "car", "motor_car", "railcar"]
    assert lexicon.synonyms("Cars") == lexicon.synonyms("car")  # English has morphology
    assert lexicon.synonyms("voiture") == []
    assert "the" in lexicon.stop_words
    assert lexicon.options == {"wordnet": "small-en:1", "stop_words": "built-in"}
    french = opened("small-fr")
    assert french.synonyms("voiture") == ["bagnole", "voiture"]
    assert french.synonyms("voitures") == []
    assert french.options["wordnet"] == "small-fr:1"


def test_words_that_differ_by_accents_are_other_words(database, tmp_path):
    german = {"schön": [1], "hübsch": [1], "Haus": [2], "Gebäude": [2], "Arm": [3], "Körperteil": [3], "arm": [4]}
    wn.add(write(tmp_path / "de.xml", "small-de", "de", german), progress_handler=None)
    lexicon = opened("small-de")
    assert lexicon.synonyms("schon") == [], "already, not beautiful"
    assert lexicon.synonyms("Schön") == ["hübsch", "schön"]
    assert lexicon.synonyms("haus") == lexicon.synonyms("Haus") == ["Gebäude", "Haus"]
    assert lexicon.synonyms("Arm") == ["Arm", "Körperteil"]
    symbols = ["<s>", "schon", "hubsch", "haus", "gebaude"]
    table = build_table(lexicon, Vocabulary.from_symbols(symbols, "words"))
    assert table.synonyms(1).tolist() == [2], "a dictionary without accents"


def test_stop_words_of_the_wordnets_language(database, tmp_path, monkeypatch, caplog):
    (tmp_path / "corpora" / "stopwords").mkdir(parents=True)
    (tmp_path / "corpora" / "stopwords" / "french").write_text("le\nm\u00eame\n", encoding="utf-8")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert opened("small-fr").stop_words == {"le", "m\u00eame"}
    shutil.rmtree(tmp_path / "corpora")
    assert opened("small-fr").stop_words == frozenset()
    assert "python -m nltk.downloader stopwords" in caplog.text


def test_a_table_is_built_from_it(database, tmp_path):
    (tmp_path / "dict.txt").write_text("car 1\nauto 1\nrailcar 1\nvoiture 1\n", encoding="utf-8")
    flags = ("--source", "wn", "--wn", "small-en", "--tokenization", "words")
    main(["synonyms", "build", "--data", str(tmp_path), *flags])
    table = SynonymTable.load(tmp_path / "synonyms.wn.npz")
    assert list(zip(table.gold, table.synonym, strict=True)) == [(4, 5), (4, 6), (5, 4), (6, 4)]
