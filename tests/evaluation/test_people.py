"""SWORDS's and cloze formats, and the script that makes the former of CoInCo and SemEval-2007."""

from __future__ import annotations

import gzip
import json
import os
import runpy
from pathlib import Path

import pytest
from support.commands import REPOSITORY, shared_file
from support.judgements import ANSWERS, content, write

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.people import Candidate, is_accepted, read_answers, read_people


def test_plain_and_gzipped_files_are_the_same(tmp_path):
    plain, packed = (read_people(write(tmp_path / name)) for name in ("a.json", "a.json.gz"))
    assert plain.targets == packed.targets
    assert plain.sha256 == packed.sha256
    assert plain.candidates == 21
    first = plain.targets[0]
    assert (first.name, first.word, first.pos) == ("t:0", "large", "a")
    assert first.context[first.start :].startswith("large")
    assert first.candidates[0] == Candidate("big", votes=8, asked=9, people=True), "one of ten is unsure"
    assert first.candidates[1].share == 5 / 9
    assert [candidate.people for candidate in first.candidates] == [True, True, False, False, False, True, False]


def test_who_is_unsure_has_no_vote(tmp_path):
    """As in SWORDS's own evaluation: a candidate without other votes is left out, and half of the votes refuse."""
    made = content()
    made["substitute_labels"]["s:0-0"] = ["UNSURE"] * 3
    made["substitute_labels"]["s:0-1"] = ["TRUE"] * 5 + ["FALSE"] * 4 + ["UNSURE"]
    made["substitute_labels"]["s:0-2"] = ["TRUE"] * 5 + ["FALSE"] * 5
    great, huge, *_ = read_people(write(tmp_path / "a.json", made)).targets[0].candidates
    assert (great.word, huge.word) == ("great", "huge")
    assert (is_accepted(great.share), is_accepted(huge.share)) == (True, False)
    # CoInCo in this format: its votes are implicit, and no source is named: all are people's.
    made["substitute_labels"]["s:0-0"] = ["TRUE_IMPLICIT", "TRUE_IMPLICIT", "FALSE_IMPLICIT"]
    for substitute in made["substitutes"].values():
        substitute.pop("extra")
    made["targets"]["t:0"]["pos"] = None
    target = read_people(write(tmp_path / "b.json", made)).targets[0]
    assert (target.candidates[0], target.pos) == (Candidate("big", 2, 3, True), "n")
    assert all(candidate.people for candidate in target.candidates)


def test_swords_development_set():
    found = read_people(shared_file("lexsub/swords-v1.1_dev.json.gz"))
    assert len(found.targets) == 370
    assert found.candidates == 22_969, "nobody was sure of nine others"
    assert sum(candidate.people for target in found.targets for candidate in target.candidates) == 1296 + 1133


def sentence(before: str, text: str, *tokens: str) -> str:
    """Of CoInCo; each token is 'word pos problematic substitute:frequency ...'."""
    made = '<token id="XXX" wordform="The" lemma="the" posMASC="XXX" />'
    for number, (word, pos, problematic, *votes) in enumerate(map(str.split, tokens)):
        made += f'<token id="{number}" wordform="{word}" lemma="{word}" posMASC="{pos}" problematic="{problematic}" >'
        for lemma, frequency in (vote.replace("_", " ").split(":") for vote in votes):
            made += f'<subst lemma="{lemma}" pos="x" freq="{frequency}" />'
        made += "</token>"
    parts = f"<precontext>\n {before}\n </precontext>\n<targetsentence>\n {text}\n</targetsentence>"
    return f'<sent MASCfile="a.txt" >\n{parts}\n<postcontext>\n </postcontext>\n<tokens>{made}</tokens></sent>'


_TOKENS = ("large JJ no big:3 of_great_size:1", "child NN yes kid:5", "walks VBZ no Go:2")
_SENTENCES = sentence("They stop.", '"The large  child" stops &amp; walks', *_TOKENS)
_SENTENCES += "\n" + sentence("", "A large film", "large JJ no great:2")
COINCO = f'<?xml version="1.0"?>\n<document>\n{_SENTENCES}\n</document>\n'
SEMEVAL = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE corpus SYSTEM "lexical-sample.dtd">
<corpus lang="english">
<lexelt item="large.a">
<instance id="1"><context>A &#8211 ; B & C : "a <head>large</head>, quick film" .</context></instance>
<instance id="2"><context><head>Large</head> cars stop .</context></instance>
<instance id="3"><context>No <head>large</head> answers .</context></instance>
</lexelt>
<lexelt item="around.r.v">
<instance id="4"><context>They <head>walked</head> .</context></instance>
</lexelt>
</corpus>
"""
GOLD = "large.a 1 :: big 3;of great size 1;\nlarge.a 2 :: great 2; big 1;\n\naround.r.v 4 ::: go 2;Go 1;\n"
LARGE = (Candidate("big", 3, 3, True), Candidate("of great size", 1, 1, True), Candidate("great", 0, 1, False))
"""The last one is of another target of the same lemma."""


def as_swords(folder, *contents):
    """What is read of CoInCo's or SemEval's files, by way of the script."""
    files = [folder / str(number) for number in range(len(contents))]
    for file, each in zip(files, contents, strict=True):
        file.write_bytes(each)
    script = runpy.run_path(str(REPOSITORY / "data-bin-scripts" / "judgements_to_swords.py"))
    script["main"]([*map(str, files), str(folder / "swords.json")])
    targets = read_people(folder / "swords.json").targets
    assert all(target.context[target.start :].startswith(target.word) for target in targets)
    return targets


def test_coinco(tmp_path):
    first, second, third = as_swords(tmp_path, COINCO.encode())
    assert [first.word, second.word, third.word] == ["large", "walks", "large"], "not what is marked as problematic"
    assert first.context == 'They stop. "The large child" stops & walks'
    assert [first.pos, second.pos, third.pos] == ["a", "v", "a"]
    assert first.candidates == LARGE
    assert second.candidates == (Candidate("go", 2, 2, True),)
    assert [candidate.votes for candidate in third.candidates] == [2, 0, 0]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_semeval(tmp_path, encoding):
    found = as_swords(tmp_path, SEMEVAL.replace("No ", "Né ").encode(encoding), GOLD.encode())
    assert [target.name for target in found] == ["large.a 1", "large.a 2", "around.r.v 4"]
    assert [target.word for target in found] == ["large", "Large", "walked"]
    assert found[0].context == 'A – B & C : "a large, quick film" .'
    assert [target.pos for target in found] == ["a", "a", "v"]
    assert found[0].candidates == LARGE
    assert found[2].candidates == (Candidate("go", 3, 3, True),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data": []}', r"cannot be read \('targets'\); expected SWORDS's JSON"),
        (json.dumps({**content(), "substitutes": {}}), "no target has candidates"),
        (json.dumps(content()).replace('"offset": 16', '"offset": 15'), "its context has ' larg' at offset 15"),
        ("1", "Expected object, got int"),
        ("<document></document>", "is not JSON"),
        ("[]", "has no context with answers"),
        ('[{"context": "a", "answers": {"b": 0}}]', "Expected int >= 1"),
        ("{'a': {'b': 0.5}}", "cannot be read"),
        ("{'a': open('x')}", "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "a"
    path.write_text(text)
    with pytest.raises(TrueNegError, match=message) as error:
        read_people(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(ANSWERS))
    return path


def test_formats_of_answers(answers, tmp_path):
    """The published file has (count + 1) / N; it knows the corpus's word where one context goes on with a word more."""
    published = {}
    for item in ANSWERS:
        total = sum(item["answers"].values()) + len(item["answers"]) + 1
        published[item["context"]] = {word: (count + 1) / total for word, count in item["answers"].items()}
        published[item["context"]]["unk"] = 1 / total
    (tmp_path / "cloze_laplace.txt").write_text(repr(published))
    packed = tmp_path / "answers.json.gz"
    packed.write_bytes(gzip.compress(answers.read_bytes()))
    read = read_answers(answers)
    assert [context.people for context in read.contexts] == [20, 7, 2, 5]
    assert read_answers(packed).contexts == read.contexts
    assert read_answers(packed).sha256 == read.sha256
    found = read_answers(tmp_path / "cloze_laplace.txt").contexts
    assert [context.answers for context in found] == [context.answers for context in read.contexts]
    assert [context.word for context in found] == ["car", None, None, None]


def test_the_published_answers():
    read = read_answers(shared_file("cloze/cloze.json.gz"))
    assert len(read.contexts) == 1610
    assert sum(context.people for context in read.contexts) == 138_210


@pytest.mark.parametrize("made", [ANSWERS, content()])
def test_a_pipe_can_be_read_once(made, tmp_path):
    """Such as <(zcat FILE)."""
    file = tmp_path / "file.json"
    file.write_text(json.dumps(made))
    out, into = os.pipe()
    os.write(into, file.read_bytes())
    os.close(into)
    assert read_people(Path(f"/dev/fd/{out}")).targets == read_people(file).targets
    os.close(out)
