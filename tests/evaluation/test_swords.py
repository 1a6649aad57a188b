"""SWORDS's format: what is read, and what is refused in one line."""

from __future__ import annotations

import pytest
from support.commands import shared_file
from support.judgements import content, write

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.swords import Candidate, read_judgements


def test_plain_and_gzipped_files_are_the_same(tmp_path):
    plain, packed = read_judgements(write(tmp_path / "a.json")), read_judgements(write(tmp_path / "a.json.gz"))
    assert plain.targets == packed.targets
    assert plain.sha256 == packed.sha256
    assert plain.candidates == 21
    first = plain.targets[0]
    assert (first.name, first.word, first.pos) == ("t:0", "large", "a")
    assert first.context[first.start :].startswith("large")
    assert first.candidates[0] == Candidate("big", votes=8, asked=10, people=True)
    assert first.candidates[1].share == 0.5
    assert [candidate.people for candidate in first.candidates] == [True, True, False, False, False, True, False]


def test_coinco_in_the_same_format(tmp_path):
    """Its votes are implicit, and no source is named: all are people's."""
    made = content()
    made["substitute_labels"]["s:0-0"] = ["TRUE_IMPLICIT", "TRUE_IMPLICIT", "FALSE_IMPLICIT"]
    for substitute in made["substitutes"].values():
        substitute.pop("extra")
    made["targets"]["t:0"]["pos"] = None
    target = read_judgements(write(tmp_path / "a.json", made)).targets[0]
    assert target.candidates[0] == Candidate("big", 2, 3, True)
    assert all(candidate.people for candidate in target.candidates)
    assert target.pos == "n"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"data": []}, "missing required field contexts"),
        ({**content(), "substitutes": {}}, "it has no target with candidates"),
        ([1], "it: Expected object, got array"),
    ],
)
def test_another_file_is_refused(tmp_path, made, message):
    path = write(tmp_path / "bad.json", made)
    with pytest.raises(TrueNegError) as error:
        read_judgements(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_swords_development_set():
    found = read_judgements(shared_file("lexsub/swords-v1.1_dev.json.gz"))
    assert len(found.targets) == 370
    assert found.candidates == 22_978
    assert sum(candidate.people for target in found.targets for candidate in target.candidates) == 1296 + 1133
