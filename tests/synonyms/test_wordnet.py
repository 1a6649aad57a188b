"""WordNet as NLTK reads it: the paper's names, and what the package asks of its reader."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import nltk.data
import pytest
from support.trainings import build

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import open_lexicon
from truneg_fairseq.synonyms.lists import read_stop_words

# Figure 3 of the paper: all names of "primary", and the names of "stay" that fit into the figure.
PRIMARY = """primary_winding principal master elementary chief primary elemental basal primary_quill main
primary_election primary_feather primary_coil"""
STAY = """continue halt stop check delay quell arrest remain bide detain persist stick_around ride_out last_out stay
abide stoppage"""


def test_figure_3_of_the_paper(wordnet):
    lexicon = open_lexicon("wordnet")
    assert set(lexicon.synonyms("primary")) == set(PRIMARY.split())
    stay = lexicon.synonyms("stay")
    assert len(stay) == 24
    assert set(stay) >= set(STAY.split())
    assert lexicon.options == {"wordnet": "3.0"}


def test_names_are_those_of_all_synsets(wordnet):
    from nltk.corpus import wordnet as reader

    lexicon = open_lexicon("wordnet")
    for word in ("stays", "walked", "better", "men", "axes", "big", "quickly", "qqq", "ice_cream", "paris"):
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


def test_the_zip_is_read_as_well(wordnet, tmp_path, monkeypatch):
    zip_wordnet(wordnet, tmp_path / "corpora" / "wordnet.zip")
    expected = open_lexicon("wordnet").synonyms("primary")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert open_lexicon("wordnet").synonyms("primary") == expected


@pytest.fixture
def half_downloads(wordnet, tmp_path, monkeypatch) -> Path:
    """NLTK's data, of which each archive is the first half of a download."""
    archive = tmp_path / "corpora" / "wordnet.zip"
    zip_wordnet(wordnet, archive)
    for name in ("stopwords", "wordnet"):
        archive.with_name(f"{name}.zip").write_bytes(archive.read_bytes()[:1_000_000])
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    return archive.parent


def test_a_truncated_download_is_named_by_the_command_and_by_trainings(half_downloads, binarized):
    message = f"{half_downloads / 'wordnet.zip'}: is not a whole zip archive; remove it and run 'truneg wordnet'"
    data = shutil.copytree(binarized, half_downloads / "data", ignore=shutil.ignore_patterns("*synonyms*"))
    with pytest.raises(SystemExit, match=f"^truneg_fairseq: error: {message}$"):
        main(["synonyms", "build", "--data", str(data), "--source", "wordnet-antonyms"])
    with pytest.raises(SystemExit, match=f"^truneg_fairseq: error: {message}$"):
        build(data, "--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
    with pytest.raises(TrueNegError, match=f"^{half_downloads / 'stopwords.zip'}: .* 'python -m nltk.downloader stopw"):
        read_stop_words("fr")
    assert not [*data.glob("synonyms*")]
