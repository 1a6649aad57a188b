"""WordNet as NLTK reads it: the paper's names, and what the package asks of its reader."""

from __future__ import annotations

import sys
import zipfile
from unittest.mock import Mock

import nltk
import nltk.data
import pytest
from support.commands import run_command
from support.trainings import build

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import build_table, open_lexicon
from truneg_fairseq.synonyms.wordnet import SYNSETS, find_wordnet, install_wordnet, verify_wordnet
from truneg_fairseq.vocabulary import Vocabulary

# Figure 3 of the paper
PRIMARY = """primary_winding principal master elementary chief primary elemental basal primary_quill main
primary_election primary_feather primary_coil"""


def test_names_are_those_of_all_synsets(wordnet):
    from nltk.corpus import wordnet as reader

    lexicon = open_lexicon("wordnet")
    assert lexicon.options == {"wordnet": "3.0"}
    assert set(lexicon.synonyms("primary")) == set(PRIMARY.split())
    for word in ("stay", "stays", "walked", "better", "men", "axes", "big", "quickly", "qqq", "ice_cream", "paris"):
        assert lexicon.synonyms(word) == sorted({name for s in reader.synsets(word) for name in s.lemma_names()})


@pytest.mark.parametrize(
    ("word", "wanted", "unwanted"),
    [
        ("Polish", set(), {"shine", "smooth"}),
        ("polish", {"shine", "Polish"}, set()),
        ("China", {"Taiwan"}, {"chinaware"}),
        ("Walked", {"take_the_air"}, set()),  # no name: as in lower case
    ],
)
@pytest.mark.parametrize("source", ["wordnet", "inflected"])
def test_the_exact_spelling_comes_first(wordnet, source, word, wanted, unwanted):
    if source == "inflected":
        pytest.importorskip("lemminflect")
        wanted = wanted - {"take_the_air"}
    names = set(open_lexicon(source).synonyms(word))
    assert names and names >= wanted
    assert not names & unwanted


def zip_wordnet(wordnet, archive):
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as members:
        for file in wordnet.iterdir():
            members.write(file, f"wordnet/{file.name}")


def test_none_and_a_truncated_download_are_named_by_the_command_and_by_trainings(
    wordnet, without_table, tmp_path, monkeypatch
):
    archive = tmp_path / "corpora" / "wordnet.zip"
    zip_wordnet(wordnet, archive)
    archive.write_bytes(archive.read_bytes()[:1_000_000])
    for folder, message in (
        (tmp_path / "none", "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet' .*"),
        (tmp_path, f"{archive}: is not a whole zip archive; remove it and run 'truneg wordnet'"),
    ):
        monkeypatch.setattr(nltk.data, "path", [str(folder)])
        with pytest.raises(SystemExit, match=f"^truneg_fairseq: error: {message}$"):
            main(["synonyms", "build", "--data", str(without_table), "--source", "wordnet-antonyms"])
        with pytest.raises(SystemExit, match=f"^truneg_fairseq: error: {message}$"):
            build(without_table, "--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
    assert not [*without_table.glob("synonyms*")]


def test_a_wordnet_that_lacks_synsets_is_named(tmp_path):
    for suffix in SYNSETS:
        (tmp_path / f"data.{suffix}").write_text("1\n")
    with pytest.raises(TrueNegError, match=r"data\.noun has 1 synsets, but WordNet 3\.0 has 82,115; remove it"):
        verify_wordnet(tmp_path)


def test_installing_keeps_what_is_there_else_asks_nltk(wordnet, tmp_path, monkeypatch, capsys):
    main(["wordnet"])
    assert capsys.readouterr().out.splitlines() == [f"WordNet 3.0 is already in {wordnet}", f"WordNet: {wordnet}"]
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk, "download", Mock(side_effect=ValueError("no network here")))
    message = r"WordNet: cannot be had .* \(no network here\); data-bin-scripts/get_wordnet.py"
    with pytest.raises(SystemExit, match=message):
        main(["wordnet"])
    archive = tmp_path / "corpora" / "wordnet.zip"
    monkeypatch.setattr(nltk, "download", lambda name, folder, **options: zip_wordnet(wordnet, archive))
    lines: list[str] = []
    assert install_wordnet(lines.append) == archive == find_wordnet()
    assert lines == ["installed WordNet 3.0 from NLTK's server"]
    assert set(open_lexicon("wordnet").synonyms("primary")) == set(PRIMARY.split()), "the archive is read as it is"


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
