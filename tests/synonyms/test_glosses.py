"""WordNet's glosses as a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from truneg_fairseq.synonyms import glosses
from truneg_fairseq.synonyms.glosses import ExtractGlossesOptions, gloss_line, is_valid_split


def extract_glosses(folder: Path, valid_every: int = 100) -> tuple[int, int]:
    return glosses.extract_glosses(ExtractGlossesOptions(output_dir=folder, valid_every=valid_every))


@pytest.fixture(scope="module")
def corpus(wordnet, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("glosses") / "text"
    assert sum(extract_glosses(folder)) == 117_659
    return folder


def test_line():
    line = gloss_line(["dog", "Canis_familiaris"], "a member of  the genus Canis; ; kept", ["the dog  barked "])
    assert line == 'dog , Canis familiaris : a member of the genus Canis; kept ; "the dog barked"'
    assert gloss_line(["entity"], "that which is perceived; ", []) == "entity : that which is perceived"


@pytest.mark.slow
def test_every_synset_is_one_line(corpus):
    assert sorted(path.name for path in corpus.iterdir()) == ["train.txt", "valid.txt"]
    train, valid = ((corpus / name).read_text(encoding="utf-8").split("\n") for name in ("train.txt", "valid.txt"))
    assert (train.pop(), valid.pop()) == ("", "")
    assert len(train) + len(valid) == 117_659
    assert 0.008 < len(valid) / 117_659 < 0.012
    lines = train + valid
    assert all(" : " in line and line == " ".join(line.split()) and not line.endswith(" :") for line in lines)
    assert not any("_" in line.partition(" : ")[0] for line in lines)
    primary = [line for line in lines if line.startswith("primary : of first rank")]
    assert len(primary) == 1
    assert primary[0].startswith("primary : of first rank or importance or value; direct and immediate rather than")
    assert '; "primary goals" ; "a primary effect"' in primary[0]


def test_split_depends_on_the_synset_alone(wordnet, tmp_path, monkeypatch):
    from nltk.corpus import wordnet as reader

    synsets = [synset for word in ("dog", "run", "primary", "quickly", "house") for synset in reader.synsets(word)]
    monkeypatch.setattr(glosses, "_synsets", lambda: iter(synsets))
    counts = extract_glosses(tmp_path / "a", valid_every=3)
    assert 0 < counts[1] < counts[0]
    monkeypatch.setattr(glosses, "_synsets", lambda: iter(synsets[::-1]))
    assert extract_glosses(tmp_path / "b", valid_every=3) == counts
    for name in ("train.txt", "valid.txt"):
        lines = [(tmp_path / folder / name).read_text(encoding="utf-8").splitlines() for folder in "ab"]
        assert lines[0] == lines[1][::-1]
    held_out = {gloss_line(s.lemma_names(), s.definition(), s.examples()) for s in synsets if _held_out(s, 3)}
    assert held_out == set((tmp_path / "a" / "valid.txt").read_text(encoding="utf-8").splitlines())


def _held_out(synset, valid_every: int) -> bool:
    return is_valid_split(synset.pos(), synset.offset(), valid_every)


def test_split_never_changes():
    held_out = [offset for offset in range(1000) if is_valid_split("n", offset, 100)]
    assert held_out == [15, 22, 76, 95, 460, 640, 656, 952]
    assert [offset for offset in range(1000) if is_valid_split("v", offset, 100)] != held_out
