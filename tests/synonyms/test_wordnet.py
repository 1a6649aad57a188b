"""The WordNet database read by the package itself, against NLTK's own reader."""

from __future__ import annotations

import random
import shutil
import zipfile

import pytest
from nltk.corpus import wordnet as nltk_wordnet

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import open_lexicon, wordnet_database
from truneg_fairseq.synonyms.figure_3 import FIGURE_3
from truneg_fairseq.synonyms.wordnet_database import PARTS_OF_SPEECH, WordNetDatabase

ENDINGS = ("", "s", "es", "ed", "ing", "er", "est", "men", "ies", "ves")


@pytest.fixture(scope="module")
def database(wordnet) -> WordNetDatabase:
    return WordNetDatabase(wordnet)


@pytest.fixture(scope="module")
def words(wordnet) -> list[str]:
    """Lemmas of every kind, and real and false inflections of them, exceptions among them."""
    rng = random.Random(1)
    lemmas = rng.sample(sorted(nltk_wordnet.all_lemma_names()), 1500)
    exceptions = rng.sample([line.split()[0] for line in (wordnet / "verb.exc").read_text().splitlines()], 300)
    invented = [lemma.rstrip("e") + rng.choice(ENDINGS) for lemma in lemmas]
    return lemmas + exceptions + invented + [lemma.title() for lemma in lemmas[:100]]


@pytest.mark.parametrize("word", FIGURE_3)
def test_figure_3_of_the_paper(wordnet, word):
    assert set(FIGURE_3[word]) <= set(open_lexicon("wordnet").synonyms(word))


def test_names_are_nltks(wordnet, words):
    lexicon = open_lexicon("wordnet")
    expected = {w: sorted({n for s in nltk_wordnet.synsets(w) for n in s.lemma_names()}) for w in words}
    assert {w: lexicon.synonyms(w) for w in words} == expected
    assert sum(map(bool, expected.values())) > 2000, "most of the words are in WordNet"


def test_lemmas_are_nltks(database, words):
    for pos in PARTS_OF_SPEECH:
        for word in words:
            assert list(database.lemmas(word.lower(), pos)) == nltk_wordnet._morphy(word.lower(), pos), (word, pos)


def test_antonyms_and_clusters_are_nltks(database, words):
    found = 0
    for word in words:
        theirs = nltk_wordnet.synsets(word.lower())
        ours = [
            synset
            for pos in PARTS_OF_SPEECH
            for lemma in database.lemmas(word.lower(), pos)
            for synset in database.synsets(lemma, pos)
        ]
        assert [synset.names for synset in ours] == [tuple(synset.lemma_names()) for synset in theirs]
        for our, their in zip(ours, theirs, strict=True):
            antonyms = {(lemma.name(), other.name()) for lemma in their.lemmas() for other in lemma.antonyms()}
            assert set(our.antonyms) == antonyms
            near = {tuple(other.lemma_names()) for other in their.similar_tos()}
            assert {synset.names for synset in database.similar(our)} == near
            found += len(antonyms)
    assert found > 100


def test_reads_the_zip_as_well(database, wordnet, tmp_path):
    archive = tmp_path / "wordnet.zip"
    with zipfile.ZipFile(archive, "w") as members:
        for file in wordnet.iterdir():
            members.write(file, f"wordnet/{file.name}")
    zipped = WordNetDatabase(archive)
    assert zipped.version == database.version == "3.0"
    assert zipped.synsets("primary", "n") == database.synsets("primary", "n") != []


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_a_broken_zip_is_one_line(content, tmp_path):
    (archive := tmp_path / "wordnet.zip").write_bytes(content)
    with pytest.raises(TrueNegError, match=r"wordnet\.zip: .*truneg wordnet"):
        WordNetDatabase(archive)


def test_a_zip_with_a_broken_member_is_one_line(wordnet, tmp_path):
    archive = tmp_path / "wordnet.zip"
    with zipfile.ZipFile(archive, "w") as members:
        for file in wordnet.iterdir():
            members.write(file, f"wordnet/{file.name}")
        place = members.getinfo("wordnet/data.noun").header_offset + 1_000
    whole = bytearray(archive.read_bytes())
    whole[place] ^= 1
    archive.write_bytes(whole)
    with pytest.raises(TrueNegError, match=r"wordnet\.zip: .*truneg wordnet"):
        WordNetDatabase(archive)


def test_a_database_that_does_not_fit_together_is_one_line(wordnet, tmp_path):
    folder = tmp_path / "wordnet"
    shutil.copytree(wordnet, folder)
    data = folder / "data.noun"
    data.write_bytes(b"  another licence line\n" + data.read_bytes())  # every offset of the index is now wrong
    with pytest.raises(TrueNegError, match=r"'dog' in index\.noun cannot be read; .*truneg wordnet"):
        WordNetDatabase(folder).synsets("dog", "n")
    adjectives = folder / "data.adj"
    adjectives.write_bytes(adjectives.read_bytes().replace(b" a 0101", b" q 0101"))  # of no part of speech
    with pytest.raises(TrueNegError, match=r"'hot' in index\.adj cannot be read; .*truneg wordnet"):
        WordNetDatabase(folder).synsets("hot", "a")


def test_missing_files_are_one_line(tmp_path):
    with pytest.raises(TrueNegError, match=r"index\.noun cannot be read .*truneg wordnet"):
        WordNetDatabase(tmp_path)


@pytest.mark.parametrize("name", ["index.noun", "index.adv", "noun.exc"])
def test_zeros_in_the_index_are_no_smaller_table(wordnet, tmp_path, name):
    folder = tmp_path / "wordnet"
    shutil.copytree(wordnet, folder)
    content = (folder / name).read_bytes()
    for damaged in (bytes(len(content)), content[: len(content) // 2] + bytes(len(content) - len(content) // 2)):
        (folder / name).write_bytes(damaged)
        with pytest.raises(TrueNegError, match=rf"{name} has zeros in it; expected WordNet's database"):
            WordNetDatabase(folder)
    if name.startswith("index"):
        (folder / name).write_bytes(b"")
        with pytest.raises(TrueNegError, match=f"{name} has no lemma"):
            WordNetDatabase(folder)


def test_another_wordnet_is_named_and_warned_of(wordnet, tmp_path, monkeypatch, caplog):
    folder = tmp_path / "wordnet"
    shutil.copytree(wordnet, folder)
    adjectives = folder / "data.adj"
    monkeypatch.setattr(wordnet_database, "find_wordnet", lambda: folder)
    wordnet_database.open_database()
    assert not caplog.records
    adjectives.write_bytes(adjectives.read_bytes().replace(b"WordNet 3.0", b"WordNet 3.1"))
    assert wordnet_database.open_database().version == "3.1"
    assert "is WordNet 3.1, the paper's is 3.0" in caplog.text
