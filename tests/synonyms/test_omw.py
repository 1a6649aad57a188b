"""The Open Multilingual Wordnet from a small data folder in NLTK's own format."""

from __future__ import annotations

import logging
import shutil

import nltk.data
import pytest
from nltk.corpus.reader import CorpusReader, WordNetCorpusReader

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import LexiconSettings, build_table, open_lexicon
from truneg_fairseq.vocabulary import Vocabulary

FRENCH = """# Wordnet Libre du Francais\tfra\thttp://example.org\tCeCILL
02084071-n\tlemma\tchien
02084071-n\tlemma\tchien domestique
02084071-n\tfra:lemma\tCanis familiaris
02084071-n\tfra:def\t0\tun animal
10114209-n\tlemma\tchien
10114209-n\tlemma\tcanaille
01382086-a\tlemma\tgrand
01382086-a\tlemma\tgros
01382086-a\tlemma\tle
15236859-n\tlemma\t\u00e9t\u00e9
15236859-n\tlemma\tla belle saison
15236859-n\tlemma\tch\u00e2leur
00001740-n\tlemma\tch\u00e2leur
00001740-n\tlemma\tardeur
01382086-a\tlemma\tm\u00eame
"""
ITALIAN = "02084071-n\titalian:lemma\tfalse\n02084071-n\tita:lemma\tcane\n02084071-n\tita:lemma\tcagnolino\n"


@pytest.fixture
def nltk_data(tmp_path, monkeypatch):
    for folder, language, content in (("fra", "fra", FRENCH), ("ita", "ita", ITALIAN), ("iwn", "ita", ITALIAN)):
        file = tmp_path / "corpora" / "omw-1.4" / folder / f"wn-data-{language}.tab"
        file.parent.mkdir(parents=True)
        file.write_text(content, encoding="utf-8")
    stop_words = tmp_path / "corpora" / "stopwords" / "french"
    stop_words.parent.mkdir()
    stop_words.write_text("le\nla\nm\u00eame\n", encoding="utf-8")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    return tmp_path


def open_omw(language: str):
    return open_lexicon("omw", LexiconSettings(lang=language))


def test_names_of_all_synsets_in_one_language(nltk_data):
    lexicon = open_omw("fra")
    assert lexicon.synonyms("chien") == ["Canis_familiaris", "canaille", "chien", "chien_domestique"]
    assert lexicon.synonyms("Grand") == ["grand", "gros", "le", "m\u00eame"]
    assert lexicon.synonyms("canis_familiaris") == ["Canis_familiaris", "chien", "chien_domestique"]
    assert lexicon.synonyms("dog") == lexicon.synonyms("") == []
    assert lexicon.options == {"omw": "omw-1.4", "lang": "fra", "stop_words": "french"}
    assert open_omw("ita").synonyms("cane") == ["cagnolino", "cane"]


def test_names_are_nltks(nltk_data, wordnet, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [str(nltk_data), str(wordnet.parent.parent)])
    omw = CorpusReader(nltk.data.find("corpora/omw-1.4"), r".*/wn-data-.*\.tab", encoding="utf8")
    reader = WordNetCorpusReader(nltk.data.find("corpora/wordnet"), omw)
    for language in ("fra", "ita", "ita_iwn"):
        lexicon = open_omw(language)
        words = ["chien", "canaille", "grand", "cane", "Canis_familiaris", "dog"]
        theirs = {w: {n for s in reader.synsets(w, lang=language) for n in s.lemma_names(language)} for w in words}
        assert {w: set(lexicon.synonyms(w)) for w in words} == theirs
        assert any(theirs.values())


def test_a_table_without_the_languages_stop_words(nltk_data):
    symbols = ["<s>", "chien", "canaille", "grand", "gros", "le"]
    table = build_table(open_omw("fra"), Vocabulary.from_symbols(symbols, "words"))
    pairs = [(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)]
    assert pairs == [
        *(("chien", "canaille"), ("canaille", "chien")),
        *(("grand", "gros"), ("grand", "le"), ("gros", "grand"), ("gros", "le")),
    ]


def test_an_uncased_vocabulary_has_no_accents(nltk_data):
    symbols = ["<s>", "ete", "chaleur", "ardeur", "gros", "meme"]
    pairs = {("ete", "chaleur"), ("chaleur", "ete"), ("chaleur", "ardeur"), ("ardeur", "chaleur"), ("gros", "meme")}
    assert _pairs(open_omw("fra"), symbols) == pairs
    assert _pairs(open_lexicon("omw+omw", LexiconSettings(lang="fra")), symbols) == pairs


def test_accents_stay_where_the_vocabulary_has_them(nltk_data):
    symbols = ["<s>", "ete", "\u00e9t\u00e9", "ch\u00e2leur", "chaleur"]
    assert _pairs(open_omw("fra"), symbols) == {("\u00e9t\u00e9", "ch\u00e2leur"), ("ch\u00e2leur", "\u00e9t\u00e9")}


def _pairs(lexicon, symbols):
    table = build_table(lexicon, Vocabulary.from_symbols(symbols, "words"))
    return {(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)}


def test_missing_stop_words_are_said(nltk_data, caplog):
    shutil.rmtree(nltk_data / "corpora" / "stopwords")
    with caplog.at_level(logging.WARNING):
        lexicon = open_omw("fra")
    assert lexicon.stop_words == frozenset()
    assert lexicon.options["stop_words"] == "none"
    assert "no 'french' in its data folders" in caplog.text
    assert "nltk.downloader stopwords" in caplog.text


def test_an_unknown_language_is_one_line(nltk_data):
    with pytest.raises(TrueNegError, match=r"--lang: found 'fr', expected one of .*: fra, ita, ita_iwn"):
        open_omw("fr")


def test_missing_data_is_one_line_that_says_how_to_get_it(nltk_data):
    shutil.rmtree(nltk_data / "corpora" / "omw-1.4")
    with pytest.raises(TrueNegError, match=r"get it with python -m nltk\.downloader omw-1\.4"):
        open_omw("fra")


def test_another_encoding_is_one_line(nltk_data):
    path = nltk_data / "corpora" / "omw-1.4" / "fra" / "wn-data-fra.tab"
    path.write_bytes("00001740-n\tlemma\tentité\n".encode("latin-1"))
    with pytest.raises(TrueNegError, match=r"wn-data-fra\.tab is not UTF-8"):
        open_omw("fra")


def test_the_zip_that_nltk_downloads_is_read(nltk_data):
    corpora = nltk_data / "corpora"
    shutil.make_archive(str(corpora / "omw-1.4"), "zip", corpora, "omw-1.4")
    shutil.rmtree(corpora / "omw-1.4")
    assert open_omw("fra").synonyms("gros") == ["grand", "gros", "le", "même"]
