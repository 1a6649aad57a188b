"""Source expressions, their settings, the user's own lists, exclusions, and what combinations answer."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import LexiconSettings, build_table, open_lexicon
from truneg_fairseq.synonyms.build import parse_source
from truneg_fairseq.synonyms.lists import TsvLexicon
from truneg_fairseq.synonyms.wordnet import Antonyms
from truneg_fairseq.vocabulary import Vocabulary


@pytest.fixture
def tsv(tmp_path):
    return listed(tmp_path, "main\tprincipal,chief\nbig\tlarge\thuge\n\nbig\tgreat\nParis\tcapital of France\n")


def listed(folder: Path, lines: str) -> Path:
    (folder / "own.tsv").write_text(lines, encoding="utf-8")
    return folder / "own.tsv"


@pytest.mark.parametrize(
    "text",
    "|word-net|thesaurus|wordnet+|wordnet+-antonyms|antonyms|wordnet&antonyms|(wordnet)|wordnet-tsv|tsv;wn".split("|"),
)
def test_what_is_no_source_is_one_line(text):
    with pytest.raises(TrueNegError, match=f"--source '{re.escape(text)}': expected wordnet, inflected, .*antonyms"):
        parse_source(text)


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("wordnet+embeddings", {}, "--source embeddings: needs --vectors"),
        ("embeddings", {"vectors": Path("none")}, "--vectors none: no such file"),
        ("wordnet", {"exclude": Path("none")}, "--exclude none: no such file"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(source, settings, message):
    with pytest.raises(TrueNegError, match=message):
        open_lexicon(source, LexiconSettings(**settings))


def test_a_users_list(tsv):
    lexicon = TsvLexicon(tsv)
    assert lexicon.synonyms("main") == ["main", "principal", "chief"]
    assert lexicon.synonyms("big") == ["big", "large", "huge", "great"], "tabs separate too, and lines add up"
    assert lexicon.synonyms("Big") == lexicon.synonyms("big")
    assert lexicon.synonyms("Paris") == ["Paris", "capital_of_France"]
    assert lexicon.synonyms("principal") == [], "a line holds in its own direction"


def test_a_broken_list_is_one_line(tmp_path):
    (tmp_path / "list.tsv").write_text("a\tb\nprincipal, chief\n")
    with pytest.raises(TrueNegError, match=r"list\.tsv: line 2 is 'principal, chief', expected 'word<TAB>synonym,syn"):
        TsvLexicon(tmp_path / "list.tsv")


def test_combinations_are_set_operations(wordnet, tsv):
    settings = LexiconSettings(tsv=tsv)
    of = {source: open_lexicon(source, settings).synonyms("big") for source in ("tsv", "wordnet+tsv")}
    by_wordnet = open_lexicon("wordnet").synonyms("big")
    assert of["wordnet+tsv"] == by_wordnet + [name for name in of["tsv"] if name not in by_wordnet]
    assert "huge" not in by_wordnet
    assert open_lexicon("tsv&wordnet", settings).synonyms("big") == ["big", "large", "great"]
    assert open_lexicon("wordnet+tsv&wordnet", settings).synonyms("big") == by_wordnet, "from left to right"


def test_an_intersection_ignores_case(wordnet, tmp_path):
    settings = LexiconSettings(tsv=listed(tmp_path, "paris\tcity of light\n"))
    assert open_lexicon("wordnet&tsv", settings).synonyms("Paris") == ["City_of_Light", "Paris"]


def test_each_source_has_its_own_stop_words(wordnet, tmp_path):
    lexicon = open_lexicon("wordnet+tsv", LexiconSettings(tsv=listed(tmp_path, "it\tthat\n")))
    assert "information_technology" in open_lexicon("wordnet").synonyms("it")
    assert lexicon.synonyms("it") == ["it", "that"]
    assert pairs(lexicon, ["<s>", "it", "that", "computing"]) == {("it", "that")}


def test_options_tell_what_a_table_was_made_from(wordnet, tsv):
    lexicon = open_lexicon("wordnet+tsv", LexiconSettings(tsv=tsv, exclude=tsv))
    digest = hashlib.sha256(tsv.read_bytes()).hexdigest()
    assert lexicon.options == {"wordnet": "3.0", "tsv_sha256": digest, "exclude_sha256": digest}
    assert lexicon.source == "wordnet+tsv"


def test_capitals_in_a_list_are_words_of_an_uncased_vocabulary(tmp_path):
    lexicon = TsvLexicon(listed(tmp_path, "Paris\tLondon\npolish\tshine\nPolish\tWarsaw\n"))
    assert lexicon.synonyms("paris") == ["Paris", "London"]
    assert lexicon.synonyms("polish") == ["polish", "shine"], "its own spelling first"
    assert lexicon.synonyms("POLISH") == ["polish", "shine", "Polish", "Warsaw"]
    assert pairs(lexicon, ["<s>", "paris", "london"]) == {("paris", "london")}


@pytest.mark.parametrize("source", ["tsv", "embeddings"])
def test_an_uncased_vocabulary_has_no_accents(source, tmp_path):
    lines = "Été\tchâleur\ncote\tnote\n"
    if source == "embeddings":
        lines = "été 1 0\nchâleur 0.9 0.1\ncote -1 0\nnote -0.9 0.1\nother 0 1\n"
    path = listed(tmp_path, lines)
    lexicon = open_lexicon(source, LexiconSettings(tsv=path, vectors=path, neighbours=1))
    bare, kept = ["<s>", "ete", "chaleur", "cote", "note"], ["<s>", "été", "châleur", "chaleur", "cote", "note"]
    assert {("ete", "chaleur"), ("cote", "note")} <= pairs(lexicon, bare)
    assert ("été", "châleur") in pairs(lexicon, kept)
    assert not any("chaleur" in pair for pair in pairs(lexicon, kept))


def pairs(lexicon, symbols):
    table = build_table(lexicon, Vocabulary.from_symbols(symbols, "words"))
    return {(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)}


def test_an_exclusion_list_holds_both_ways(wordnet, tmp_path):
    path = listed(tmp_path, "big\tGreat\nlarge\tbig\n")
    before = open_lexicon("wordnet").synonyms("big")
    after = open_lexicon("wordnet", LexiconSettings(exclude=path)).synonyms("big")
    assert set(before) - set(after) == {"great", "large"}


# The last two are antonyms by their clusters.
ANTONYMS = "hot:cold cold:hot rose:fell increased:decreasing men:women Day:night warm:cold affordable:expensive"
OTHERS = "hot:spicy big:large severe:serious rose:rises qqq:cold hot:qqq"


def test_antonyms_are_excluded_in_every_form(wordnet):
    antonyms = Antonyms()
    for pair in f"{ANTONYMS} {OTHERS}".split():
        assert antonyms.excludes(*pair.split(":")) == (pair in ANTONYMS.split()), pair
