"""WordNet in the word's own form, with the real WordNet and the real lemminflect."""

from __future__ import annotations

import sys

import pytest
from support.commands import run_command

from truneg_fairseq.synonyms import build_table, open_lexicon
from truneg_fairseq.synonyms.inflected import Inflector
from truneg_fairseq.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def inflected(wordnet):
    pytest.importorskip("lemminflect", reason="the source needs the extra 'inflect'")
    return open_lexicon("inflected")


@pytest.mark.parametrize(
    ("word", "wanted", "unwanted"),
    [
        ("bought", ["bought", "purchased"], ["buy", "purchase"]),
        ("purchasing", ["buying"], ["buy", "bought", "purchase"]),
        ("films", ["movies", "pictures"], ["film", "movie", "picture"]),
        ("bigger", ["larger", "greater"], ["big", "large", "larges"]),
        ("biggest", ["largest"], ["larger", "large"]),
        ("said", ["told", "aforesaid"], ["tell", "say"]),  # a past tense, and an adjective of its own
        ("halts", ["stops"], ["stop", "stopped"]),
        ("eras", ["epochs"], ["epoch", "era"]),
        ("walk", ["walk"], ["walking", "walked"]),  # WordNet lists the noun "walking" with "walk"
        ("travelled", ["traveled", "moved"], ["travel", "move"]),  # a spelling of the same form stays
        ("wives", ["wives"], ["wife"]),
        ("stared", ["stared"], ["star", "starred", "stare"]),  # WordNet's morphology says: of "star"
        ("italians", ["Italians"], ["Italian"]),  # unknown to lemminflect
        ("primary", ["main", "principal"], []),  # a base form is answered as WordNet does
    ],
)
def test_names_have_the_form_of_the_word(inflected, word, wanted, unwanted):
    names = set(inflected.synonyms(word))
    assert set(wanted) <= names
    assert not names & set(unwanted)


def test_forms_that_the_dictionary_lists_oddly(inflected):
    inflector = Inflector()
    assert inflector.forms("life", "n")["NNS"] == ("lives",), "not 'life' beside it"
    assert inflector.forms("sheep", "n")["NNS"] == ("sheep",)
    assert inflector.forms("walk", "v")["VBN"] == ("walked",)
    assert inflector.forms("large", "r") == {}
    assert [inflector.forms(n, "n")["NNS"][0] for n in ("qqqx", "qqqy", "qqqay")] == ["qqqxes", "qqqies", "qqqays"]


def test_it_makes_a_table(inflected):
    symbols = ["<s>", "bought", "buy", "purchased", "purchase", "movies", "films", "film", "the"]
    table = build_table(inflected, Vocabulary.from_symbols(symbols, "words"))
    pairs = {(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)}
    both_ways = {("bought", "purchased"), ("buy", "purchase"), ("movies", "films")}
    assert pairs == both_ways | {(right, left) for left, right in both_ways}
    assert set(table.options) == {"wordnet", "lemminflect"}


@pytest.mark.slow
def test_no_pickle_is_read(wordnet):
    """lemminflect's classifiers are pickles; its dictionary is not."""
    pytest.importorskip("lemminflect")
    program = (
        "import sys; read = []\n"
        "sys.addaudithook(lambda event, args: read.append(str(args[0])) if event == 'open' else None)\n"
        "from truneg_fairseq.synonyms import open_lexicon\n"
        "print(open_lexicon('inflected').synonyms('italians'), [path for path in read if 'lemminflect' in path])"
    )
    output = run_command([sys.executable, "-c", program]).stdout
    assert "Italians" in output
    assert "infl_lu.csv.gz" in output, "the dictionary"
    assert ".pkl" not in output
