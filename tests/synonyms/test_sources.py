"""Source expressions and their options, the user's own lists, antonyms, and tables of combinations."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import Lexicon, SourceOptions, build_table, open_lexicon
from truneg_fairseq.synonyms.building import new_table, parse_source
from truneg_fairseq.synonyms.lists import TsvLexicon
from truneg_fairseq.synonyms.wordnet import AntonymLexicon
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


def test_a_users_list(tsv):
    lexicon = TsvLexicon(tsv)
    assert lexicon.synonyms("main") == ["main", "principal", "chief"]
    assert lexicon.synonyms("big") == ["big", "large", "huge", "great"], "tabs separate too, and lines add up"
    assert lexicon.synonyms("Big") == lexicon.synonyms("big")
    assert lexicon.synonyms("Paris") == ["Paris", "capital_of_France"]
    assert lexicon.synonyms("principal") == [], "a line holds in its own direction"


WORDS = ["<s>", "big", "large", "huge", "great", "bad", "Paris", "paris", "Light", "light", "it", "that", "computing"]


def pairs(source: str | Lexicon, symbols=WORDS, **options) -> set[tuple[str, str]]:
    table = build_table(source, Vocabulary.from_symbols(symbols, "words"), SourceOptions(**options))
    return {(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("big large\n", r"own\.tsv: line 1 is 'big large', expected 'word<TAB>synonym,synonym'"),
        ("qqq\tzzz\n", r"dictionary: tsv has no synonyms for any of its 13 tokens \(read as words\)"),
    ],
)
def test_a_list_of_nothing_is_one_line(lines, message, tmp_path):
    with pytest.raises(TrueNegError, match=message):
        new_table(Vocabulary.from_symbols(WORDS, "words"), "tsv", SourceOptions(tsv=listed(tmp_path, lines)))


def test_combinations_are_set_operations(wordnet, tsv):
    ours, theirs = pairs("tsv", tsv=tsv), pairs("wordnet")
    assert ("big", "huge") in ours - theirs
    assert pairs("wordnet+tsv", tsv=tsv) == ours | theirs
    assert pairs("tsv&wordnet", tsv=tsv) == ours & theirs
    assert pairs("wordnet+tsv&wordnet", tsv=tsv) == theirs, "from left to right"


def test_an_intersection_ignores_case_and_keeps_the_first_spelling(wordnet, tmp_path):
    path = listed(tmp_path, "big\tGREAT,Large\n")
    assert pairs("tsv", ["<s>", "big", "great", "GREAT"], tsv=path) == {("big", "GREAT")}
    assert pairs("wordnet&tsv", tsv=path) == {("big", "great"), ("big", "large")}


def test_each_source_has_its_own_stop_words(wordnet, tmp_path):
    assert "information_technology" in open_lexicon("wordnet").synonyms("it")
    assert {pair for pair in pairs("wordnet+tsv", tsv=listed(tmp_path, "it\tthat\n")) if pair[0] == "it"} == {
        ("it", "that")
    }


def test_options_tell_what_a_table_was_made_from(wordnet, tsv):
    vocabulary = Vocabulary.from_symbols(WORDS, "words")
    table = build_table("wordnet + tsv", vocabulary, SourceOptions(tsv=tsv, exclude=tsv))
    digest = hashlib.sha256(tsv.read_bytes()).hexdigest()
    assert table.options == {"wordnet": "3.0", "tsv_sha256": digest, "exclude_sha256": digest}
    assert table.source == "wordnet+tsv"


def test_capitals_in_a_list_are_words_of_an_uncased_vocabulary(tmp_path):
    lexicon = TsvLexicon(listed(tmp_path, "Paris\tLondon\npolish\tshine\nPolish\tWarsaw\n"))
    assert lexicon.synonyms("paris") == ["Paris", "London"]
    assert lexicon.synonyms("polish") == ["polish", "shine"], "its own spelling first"
    assert lexicon.synonyms("POLISH") == ["polish", "shine", "Polish", "Warsaw"]
    assert pairs(lexicon, ["<s>", "paris", "london"]) == {("paris", "london")}


def test_an_uncased_vocabulary_has_no_accents(tmp_path):
    lexicon = TsvLexicon(listed(tmp_path, "Été\tchâleur\ncote\tnote\n"))
    bare, kept = ["<s>", "ete", "chaleur", "cote", "note"], ["<s>", "été", "châleur", "chaleur", "cote", "note"]
    assert {("ete", "chaleur"), ("cote", "note")} <= pairs(lexicon, bare)
    assert ("été", "châleur") in pairs(lexicon, kept)
    assert not any("chaleur" in pair for pair in pairs(lexicon, kept))


def test_an_exclusion_list_holds_both_ways_and_in_any_case(wordnet, tmp_path):
    path = listed(tmp_path, "big\tGreat\nlarge\tbig\n")
    gone = {("big", "great"), ("great", "big"), ("large", "big"), ("big", "large")}
    assert pairs("wordnet") - pairs("wordnet", exclude=path) == gone & pairs("wordnet")


# The last two are antonyms by their clusters.
ANTONYMS = "hot:cold cold:hot rose:fell increased:decreasing men:women Day:night warm:cold affordable:expensive"
OTHERS = "hot:spicy big:large severe:serious rose:rises qqq:cold hot:qqq"


def test_antonyms_in_every_form(wordnet):
    words = sorted({word for pair in f"{ANTONYMS} {OTHERS}".split() for word in pair.split(":")})
    found = pairs(AntonymLexicon(words), ["<s>", *words])
    for pair in f"{ANTONYMS} {OTHERS}".split():
        assert (tuple(pair.split(":")) in found) == (pair in ANTONYMS.split()), pair
    assert ("rose", "rises") in pairs(AntonymLexicon(words, other_forms=True), ["<s>", *words])
