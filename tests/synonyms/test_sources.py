"""Source expressions, their settings, the user's own lists, exclusions, and what combinations answer."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import LexiconSettings, build_table, open_lexicon
from truneg_fairseq.synonyms.exclusion import AntonymExclusion
from truneg_fairseq.synonyms.expression import parse
from truneg_fairseq.synonyms.sources import SOURCES, parse_source
from truneg_fairseq.synonyms.tsv import TsvLexicon
from truneg_fairseq.vocabulary import Vocabulary


@pytest.fixture
def tsv(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text(
        "main\tprincipal,chief\nbig\tlarge\thuge\n\nbig\tgreat\nParis\tcapital of France\n", encoding="utf-8"
    )
    return path


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("wordnet", "wordnet"),
        (" wordnet +  tsv ", "wordnet+tsv"),
        ("wordnet+tsv&omw", "wordnet+tsv&omw"),
        ("wordnet+(tsv&omw)", "wordnet+tsv&omw"),
        ("(wordnet+tsv)&omw", "(wordnet+tsv)&omw"),
        ("wordnet-tsv-omw", "wordnet-tsv-omw"),
        ("wordnet-(tsv-omw)", "wordnet-(tsv-omw)"),
        ("wordnet+(tsv+omw)", "wordnet+(tsv+omw)"),
        ("wordnet&tsv&omw", "wordnet&tsv&omw"),
        ("wordnet&(tsv&omw)", "wordnet&(tsv&omw)"),
        ("embeddings-antonyms", "embeddings-antonyms"),
        ("(embeddings-antonyms)&wordnet", "(embeddings-antonyms)&wordnet"),
    ],
)
def test_an_expression_has_one_normal_form(text, normal):
    expression = parse(text, SOURCES, "--source")
    assert str(expression) == normal
    assert parse(normal, SOURCES, "--source") == expression


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word-net", r"--source 'word-net': found 'word', expected one of embeddings, .*wordnet"),
        ("thesaurus", r"--source: found 'thesaurus', expected one of"),
        ("", "found no source, expected one of"),
        ("wordnet+", "found no source"),
        ("wordnet tsv", "found 'tsv' after a complete expression"),
        ("(wordnet", "found an open parenthesis"),
        ("wordnet)", r"found '\)' after"),
        ("antonyms", "expected it after a -"),
        ("wordnet&antonyms", "expected it after a -"),
        ("wordnet+antonyms", "expected it after a -"),
        ("wordnet|tsv", r"found '\|'"),
    ],
)
def test_a_broken_expression_is_one_line(text, message):
    with pytest.raises(TrueNegError, match=message) as caught:
        parse(text, SOURCES, "--source")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("omw", {}, "--source: omw needs --lang, found none; expected the ISO 639-3 code"),
        ("wordnet+embeddings", {}, "embeddings needs --vectors"),
        ("tsv", {}, "tsv needs --tsv"),
        (
            "wordnet",
            {"lang": "fra"},
            r"--lang fra: has no effect on the source wordnet; expected omw or embeddings or mythes in",
        ),
        ("mythes", {"lang": "fr"}, "--lang fr: expected an ISO 639-3 code of three letters, such as fra"),
        ("wordnet", {"neighbours": 3}, "--neighbours 3: has no effect"),
        ("wordnet", {"threshold": 0.0}, r"--threshold 0\.0: has no effect"),
        ("wordnet", {"vectors": "f"}, "--vectors f: has no effect"),
        ("wordnet", {"tsv": "f"}, "--tsv f: has no effect"),
        ("embeddings", {"vectors": "f", "neighbours": 0}, "--neighbours: found 0, expected a number >= 1"),
        ("embeddings", {"vectors": "f", "threshold": 1.5}, r"--threshold: found 1\.5, expected a cosine"),
        ("embeddings", {"vectors": "f", "threshold": float("nan")}, "--threshold: found nan"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(source, settings, message):
    with pytest.raises(TrueNegError, match=message):
        parse_source(source, LexiconSettings(**settings))


def test_messages_name_the_flags_of_training():
    with pytest.raises(TrueNegError, match="--synonym-source: omw needs --synonym-lang"):
        parse_source("omw", LexiconSettings(flags="--synonym-"))


def test_a_users_list(tsv):
    lexicon = TsvLexicon(tsv)
    assert lexicon.synonyms("main") == ["main", "principal", "chief"]
    assert lexicon.synonyms("big") == ["big", "large", "huge", "great"], "tabs separate too, and lines add up"
    assert lexicon.synonyms("Big") == lexicon.synonyms("big")
    assert lexicon.synonyms("Paris") == ["Paris", "capital_of_France"]
    assert lexicon.synonyms("principal") == [], "a line holds in its own direction"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nprincipal, chief\n", "line 2 is 'principal, chief', expected 'word<TAB>synonym,synonym'"),
        (b"a\tb\n\n\tc\n", r"line 3 is '\\tc'"),
        (b"a\t ,\n", "line 1"),
        (b"", "is empty; expected lines"),
        (b"\n\n", "is empty"),
        (b"a\tb\nc\t\xe9t\xe9\n", "line 2 is not UTF-8"),
    ],
)
def test_a_broken_list_is_one_line(tmp_path, content, message):
    path = tmp_path / "list.tsv"
    path.write_bytes(content)
    with pytest.raises(TrueNegError, match=message) as caught:
        TsvLexicon(path)
    assert str(caught.value).startswith(str(path))


def test_no_list_is_one_line(tmp_path):
    with pytest.raises(TrueNegError, match=r"none\.tsv: cannot be read \(No such file"):
        TsvLexicon(tmp_path / "none.tsv")


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    (tmp_path / "list.tsv").write_bytes(b"\xef\xbb\xbfa\tb\r\n")
    assert TsvLexicon(tmp_path / "list.tsv").synonyms("a") == ["a", "b"]


def test_combinations_are_set_operations(wordnet, tsv):
    settings = LexiconSettings(tsv=tsv)
    of = {source: open_lexicon(source, settings).synonyms("big") for source in ("tsv", "wordnet+tsv")}
    by_wordnet = open_lexicon("wordnet").synonyms("big")
    assert of["wordnet+tsv"] == by_wordnet + [name for name in of["tsv"] if name not in by_wordnet]
    assert "huge" not in by_wordnet
    assert open_lexicon("tsv&wordnet", settings).synonyms("big") == ["big", "large", "great"]
    assert open_lexicon("tsv-wordnet", settings).synonyms("big") == ["big", "huge"], "the word itself stays"
    assert set(open_lexicon("(wordnet+tsv)-(wordnet&tsv)", settings).synonyms("big")) == (
        set(of["wordnet+tsv"]) - {"large", "great"}
    )


def test_an_intersection_ignores_case(wordnet, tmp_path):
    path = tmp_path / "list.tsv"
    path.write_text("paris\tcity of light\n", encoding="utf-8")
    assert open_lexicon("wordnet&tsv", LexiconSettings(tsv=path)).synonyms("Paris") == ["City_of_Light", "Paris"]


def test_each_source_has_its_own_stop_words(wordnet, tmp_path):
    path = tmp_path / "list.tsv"
    path.write_text("it\tthat\n", encoding="utf-8")
    lexicon = open_lexicon("wordnet+tsv", LexiconSettings(tsv=path))
    assert "information_technology" in open_lexicon("wordnet").synonyms("it")
    assert lexicon.synonyms("it") == ["it", "that"]
    table = build_table(lexicon, Vocabulary.from_symbols(["<s>", "it", "that", "computing"], "words"))
    assert table.synonyms(1).tolist() == [2]


def test_options_tell_what_a_table_was_made_from(wordnet, tsv):
    lexicon = open_lexicon("wordnet+tsv", LexiconSettings(tsv=tsv, exclude=tsv))
    digest = hashlib.sha256(tsv.read_bytes()).hexdigest()
    assert lexicon.options == {"wordnet": "3.0", "tsv_sha256": digest, "exclude_sha256": digest}
    assert lexicon.source == "wordnet+tsv"


def test_capitals_in_a_list_are_words_of_an_uncased_vocabulary(tmp_path):
    path = tmp_path / "list.tsv"
    path.write_text("Paris\tLondon\npolish\tshine\nPolish\tWarsaw\n", encoding="utf-8")
    lexicon = TsvLexicon(path)
    assert lexicon.synonyms("paris") == ["Paris", "London"]
    assert lexicon.synonyms("polish") == ["polish", "shine"], "its own spelling first"
    assert lexicon.synonyms("POLISH") == ["polish", "shine", "Polish", "Warsaw"]
    table = build_table(lexicon, Vocabulary.from_symbols(["<s>", "paris", "london"], "words"))
    assert table.synonyms(1).tolist() == [2]


@pytest.mark.parametrize("source", ["tsv", "mythes", "embeddings"])
def test_an_uncased_vocabulary_has_no_accents(source, tmp_path):
    path = tmp_path / "words"
    lines = {
        "tsv": ["Été\tchâleur", "cote\tnote"],
        "mythes": ["UTF-8", "été|1", "-|châleur", "cote|1", "-|note"],
        "embeddings": ["été 1 0", "châleur 0.9 0.1", "cote -1 0", "note -0.9 0.1", "other 0 1"],
    }
    path.write_text("\n".join(lines[source]) + "\n", encoding="utf-8")
    settings = {
        "tsv": LexiconSettings(tsv=path),
        "mythes": LexiconSettings(lang="fra", thesaurus=path),
        "embeddings": LexiconSettings(vectors=path, neighbours=1, lang="fra"),
    }
    lexicon = open_lexicon(source, settings[source])
    bare, kept = ["<s>", "ete", "chaleur", "cote", "note"], ["<s>", "été", "châleur", "chaleur", "cote", "note"]
    assert ("ete", "chaleur") in pairs(lexicon, bare)
    assert ("cote", "note") in pairs(lexicon, bare)
    assert ("été", "châleur") in pairs(lexicon, kept)
    assert not any("chaleur" in pair for pair in pairs(lexicon, kept))


def pairs(lexicon, symbols):
    table = build_table(lexicon, Vocabulary.from_symbols(symbols, "words"))
    return {(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)}


@pytest.mark.parametrize("line", ["Big\tGreat", "big\tgreat", "GREAT\tbig"])
def test_an_exclusion_list_ignores_case(line, wordnet, tmp_path):
    (tmp_path / "exclude.tsv").write_text(f"{line}\n", encoding="utf-8")
    after = open_lexicon("wordnet", LexiconSettings(exclude=tmp_path / "exclude.tsv")).synonyms("big")
    assert "great" not in after
    assert "large" in after


def test_an_exclusion_list_holds_both_ways(wordnet, tmp_path):
    path = tmp_path / "exclude.tsv"
    path.write_text("big\tGreat\nlarge\tbig\n", encoding="utf-8")
    before = open_lexicon("wordnet").synonyms("big")
    after = open_lexicon("wordnet", LexiconSettings(exclude=path)).synonyms("big")
    assert set(before) - set(after) == {"great", "large"}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("hot", "cold"),
        ("cold", "hot"),
        ("rose", "fell"),  # rise, fall
        ("increased", "decreasing"),
        ("men", "women"),
        ("warm", "cold"),  # by their clusters
        ("affordable", "expensive"),
        ("Day", "night"),
    ],
)
def test_antonyms_are_excluded_in_every_form(wordnet, word, name):
    assert AntonymExclusion().excludes(word, name)


@pytest.mark.parametrize(
    ("word", "name"),
    [("hot", "spicy"), ("big", "large"), ("severe", "serious"), ("rose", "rises"), ("qqq", "cold"), ("hot", "qqq")],
)
def test_what_is_no_antonym_stays(wordnet, word, name):
    assert not AntonymExclusion().excludes(word, name)


def test_antonyms_are_subtracted_from_a_list(wordnet, tmp_path):
    path = tmp_path / "list.tsv"
    path.write_text("hot\tcold,spicy,COLDER\n", encoding="utf-8")
    assert open_lexicon("tsv-antonyms", LexiconSettings(tsv=path)).synonyms("hot") == ["hot", "spicy"]


@pytest.mark.parametrize("text", ["(" * 3_000 + "wordnet" + ")" * 3_000, "wordnet+" * 3_000 + "wordnet"])
def test_endless_expressions_are_one_line(text):
    with pytest.raises(TrueNegError, match="names and signs; expected at most 100"):
        parse(text, ("wordnet",), "--source")


def test_spaces_cost_nothing():
    # A pattern that tries every beginning again would take minutes.
    assert str(parse("wordnet" + " " * 200_000, ("wordnet",), "--source")) == "wordnet"


def test_neighbours_have_a_bound():
    with pytest.raises(TrueNegError, match="--neighbours: found 1000000000000, expected at most 10000"):
        LexiconSettings(vectors=Path("v.txt"), neighbours=10**12).check(["embeddings"])
