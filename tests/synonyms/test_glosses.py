"""WordNet's glosses as a corpus."""

from __future__ import annotations

import pytest

from truneg_fairseq.synonyms.glosses import ExtractGlossesOptions, extract_glosses, gloss_line


def test_line():
    line = gloss_line(["dog", "Canis_familiaris"], "a member of  the genus Canis; ; kept", ["the dog  barked "])
    assert line == 'dog , Canis familiaris : a member of the genus Canis; kept ; "the dog barked"'
    assert gloss_line(["entity"], "that which is perceived; ", []) == "entity : that which is perceived"


@pytest.mark.slow
def test_every_synset_is_one_line(wordnet, tmp_path):
    assert sum(extract_glosses(ExtractGlossesOptions(output_dir=tmp_path / "text"))) == 117_659
    files = (tmp_path / "text" / "train.txt", tmp_path / "text" / "valid.txt")
    train, valid = (file.read_text(encoding="utf-8").split("\n") for file in files)
    assert (train.pop(), valid.pop()) == ("", "")
    assert len(train) + len(valid) == 117_659
    assert len(valid) == 1_198, "the split never changes"
    lines = train + valid
    assert all(" : " in line and line == " ".join(line.split()) and not line.endswith(" :") for line in lines)
    assert not any("_" in line.partition(" : ")[0] for line in lines)
    (primary,) = [line for line in lines if line.startswith("primary : of first rank")]
    assert primary.startswith("primary : of first rank or importance or value; direct and immediate rather than")
    assert '; "primary goals" ; "a primary effect"' in primary
