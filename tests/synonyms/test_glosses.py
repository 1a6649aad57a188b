"""WordNet's glosses as a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from truneg_fairseq.synonyms import glosses
from truneg_fairseq.synonyms.glosses import ExtractGlossesOptions, gloss_line, is_valid_split


def extract_glosses(folder: Path, valid_every: int = 100) -> tuple[int, int]:
    return glosses.extract_glosses(ExtractGlossesOptions(output_dir=folder, valid_every=valid_every))


def test_line():
    line = gloss_line(["dog", "Canis_familiaris"], "a member of  the genus Canis; ; kept", ["the dog  barked "])
    assert line == 'dog , Canis familiaris : a member of the genus Canis; kept ; "the dog barked"'
    assert gloss_line(["entity"], "that which is perceived; ", []) == "entity : that which is perceived"


@pytest.mark.slow
def test_every_synset_is_one_line(wordnet, tmp_path):
    assert sum(extract_glosses(tmp_path / "text")) == 117_659
    files = (tmp_path / "text" / "train.txt", tmp_path / "text" / "valid.txt")
    train, valid = (file.read_text(encoding="utf-8").split("\n") for file in files)
    assert (train.pop(), valid.pop()) == ("", "")
    assert len(train) + len(valid) == 117_659
    assert 0.008 < len(valid) / 117_659 < 0.012
    lines = train + valid
    assert all(" : " in line and line == " ".join(line.split()) and not line.endswith(" :") for line in lines)
    assert not any("_" in line.partition(" : ")[0] for line in lines)
    (primary,) = [line for line in lines if line.startswith("primary : of first rank")]
    assert primary.startswith("primary : of first rank or importance or value; direct and immediate rather than")
    assert '; "primary goals" ; "a primary effect"' in primary


def test_split_depends_on_the_synset_alone(wordnet, tmp_path, monkeypatch):
    from nltk.corpus import wordnet as reader

    synsets = [synset for word in ("dog", "run", "primary", "quickly", "house") for synset in reader.synsets(word)]
    monkeypatch.setattr(reader, "all_synsets", lambda: iter(synsets))
    counts = extract_glosses(tmp_path / "a", valid_every=3)
    assert 0 < counts[1] < counts[0]
    synsets.reverse()
    assert extract_glosses(tmp_path / "b", valid_every=3) == counts
    for name in ("train.txt", "valid.txt"):
        lines = [(tmp_path / folder / name).read_text(encoding="utf-8").splitlines() for folder in "ab"]
        assert lines[0] == lines[1][::-1]
    held_out = [s for s in synsets if is_valid_split(s.pos(), s.offset(), 3)]
    assert lines[1] == [gloss_line(s.lemma_names(), s.definition(), s.examples()) for s in held_out]


def test_split_never_changes():
    held_out = [offset for offset in range(1000) if is_valid_split("n", offset, 100)]
    assert held_out == [15, 22, 76, 95, 460, 640, 656, 952]
    assert [offset for offset in range(1000) if is_valid_split("v", offset, 100)] != held_out
