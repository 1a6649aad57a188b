"""SWORDS's format: what is read, and what is refused in one line."""

from __future__ import annotations

import pytest
from support.commands import shared_file
from support.judgements import content, write

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.lexsub.swords import Candidate, read_judgements


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


def test_a_word_listed_twice_is_one_candidate(tmp_path):
    made = content()
    made["substitutes"]["s:0-6"]["substitute"] = "Big "
    assert read_judgements(write(tmp_path / "a.json", made)).targets[0].candidates[0] == Candidate("big", 9, 20, True)


def broken(**parts):
    made = content()
    for path, value in parts.items():
        *outer, last = path.split("__")
        inner = made
        for key in outer:
            inner = inner[key.replace("_", ":", 1).replace("_", "-") if key[0] in "cts" and key[1] == "_" else key]
        inner[last.replace("_", ":", 1).replace("_", "-") if last[1] == "_" else last] = value
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"data": []}, "missing required field contexts"),
        (broken(targets__t_0__offset=3), "target t:0: its context has ' pict' at offset 3, not 'large'"),
        (broken(targets__t_0__offset=-1), "target t:0: its context has '' at offset -1, not 'large'"),
        (broken(targets__t_0__context_id="c:77"), "target t:0 has no context"),
        (broken(substitute_labels__s_0_0=[]), "substitute s:0-0 ('big') has the votes []"),
        (broken(substitute_labels__s_0_0=["YES"]), "('big') has the votes ['YES'], not of TRUE, TRUE_IMPLICIT"),
        (broken(substitutes__s_0_0={"target_id": "t:99", "substitute": "a"}), "is of the target 't:99'"),
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


def test_damaged_files_are_refused(tmp_path):
    packed = write(tmp_path / "a.json.gz")
    packed.write_bytes(packed.read_bytes()[:100])
    (tmp_path / "text.json").write_text("no JSON")
    for path, message in (
        (packed, "ended before"),
        (tmp_path / "text.json", "is not JSON in UTF-8"),
        (tmp_path, "directory"),
    ):
        with pytest.raises(TrueNegError, match=message):
            read_judgements(path)
    with pytest.raises(TrueNegError, match="no such file"):
        read_judgements(tmp_path / "missing.json")


def test_swords_development_set():
    found = read_judgements(shared_file("lexsub/swords-v1.1_dev.json.gz"))
    assert len(found.targets) == 370
    assert found.candidates == 22_978
    assert sum(candidate.people for target in found.targets for candidate in target.candidates) == 1296 + 1133
