"""SWORDS's, CoInCo's, SemEval-2007's and cloze formats: what is read, and what is refused in one line."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from support.commands import shared_file
from support.judgements import ANSWERS, content, write

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.people import Candidate, is_accepted, read_answers, read_people


def test_plain_and_gzipped_files_are_the_same(tmp_path):
    plain, packed = read_people([write(tmp_path / "a.json")]), read_people([write(tmp_path / "a.json.gz")])
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
    great, huge, *_ = read_people([write(tmp_path / "a.json", made)]).targets[0].candidates
    assert (great.word, huge.word) == ("great", "huge")
    assert (is_accepted(great.share), is_accepted(huge.share)) == (True, False)


def test_coinco_in_the_format_of_swords(tmp_path):
    """Its votes are implicit, and no source is named: all are people's."""
    made = content()
    made["substitute_labels"]["s:0-0"] = ["TRUE_IMPLICIT", "TRUE_IMPLICIT", "FALSE_IMPLICIT"]
    for substitute in made["substitutes"].values():
        substitute.pop("extra")
    made["targets"]["t:0"]["pos"] = None
    target = read_people([write(tmp_path / "a.json", made)]).targets[0]
    assert target.candidates[0] == Candidate("big", 2, 3, True)
    assert all(candidate.people for candidate in target.candidates)
    assert target.pos == "n"


def test_swords_development_set():
    found = read_people([shared_file("lexsub/swords-v1.1_dev.json.gz")])
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


COINCO = f"""<?xml version="1.0"?>
<document>
{
    sentence(
        "They stop.",
        '"The large  child" stops &amp; walks',
        "large JJ no big:3 of_great_size:1",
        "child NN yes kid:5",
        "walks VBZ no Go:2",
    )
}
{sentence("", "A large film", "large JJ no great:2")}
</document>
"""
SEMEVAL = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE corpus SYSTEM "lexical-sample.dtd">
<corpus lang="english">
<lexelt item="large.a">
<instance id="1">
<context>A &#8211 ; B & C : "a <head>large</head>, quick film" .</context>
</instance>
<instance id="2">
<context><head>Large</head> cars stop .</context>
</instance>
<instance id="3">
<context>No <head>large</head> answers .</context>
</instance>
</lexelt>
<lexelt item="around.r.v">
<instance id="4">
<context>They <head>walked</head> .</context>
</instance>
</lexelt>
</corpus>
"""
GOLD = "large.a 1 :: big 3;of great size 1;\nlarge.a 2 :: great 2; big 1;\n\naround.r.v 4 ::: go 2;Go 1;\n"
LARGE = (Candidate("big", 3, 3, True), Candidate("of great size", 1, 1, True), Candidate("great", 0, 1, False))
"""The last one is of another target of the same lemma."""


def words_at(judgements):
    return [target.context[target.start :][: len(target.word)] for target in judgements.targets]


def test_coinco(tmp_path):
    path = tmp_path / "coinco.xml.gz"
    path.write_bytes(gzip.compress(COINCO.encode()))
    found = read_people([path])
    assert words_at(found) == ["large", "walks", "large"], "not what is marked as problematic"
    first, second, third = found.targets
    assert first.context == 'They stop. "The large child" stops & walks'
    assert [target.pos for target in found.targets] == ["a", "v", "a"]
    assert first.candidates == LARGE
    assert second.candidates == (Candidate("go", 2, 2, True),)
    assert [candidate.votes for candidate in third.candidates] == [2, 0, 0]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_semeval(tmp_path, encoding):
    path, gold = tmp_path / "lst_all.xml", tmp_path / "lst_all.gold"
    path.write_bytes(SEMEVAL.replace("No ", "Né ").encode(encoding))
    gold.write_text(GOLD)
    found = read_people([path, gold])
    assert [target.name for target in found.targets] == ["large.a 1", "large.a 2", "around.r.v 4"]
    assert words_at(found) == ["large", "Large", "walked"]
    assert found.targets[0].context == 'A – B & C : "a large, quick film" .'
    assert [target.pos for target in found.targets] == ["a", "a", "v"]
    assert found.targets[0].candidates == LARGE
    assert found.targets[2].candidates == (Candidate("go", 3, 3, True),)


@pytest.mark.parametrize(
    ("text", "gold", "message"),
    [
        ('{"data": []}', None, "missing required field contexts"),
        (json.dumps({**content(), "substitutes": {}}), None, "no target has candidates"),
        ("1", None, "Expected object, got int"),
        (SEMEVAL, None, "answers are in another file; give that too"),
        (SEMEVAL, "large.a 1 big 3", "line 1 of its gold file is 'large.a 1 big 3'"),
        (SEMEVAL, "large.a 1 :: big;", "line 1 of its gold file"),
        (SEMEVAL, "large.a 9 :: big 3;", "no target has candidates"),
        ("<document></document>", None, r"no target has candidates\); expected SWORDS's JSON, CoInCo's XML"),
        ("<document>", None, "cannot be read"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><document>&b;</document>', None, "entities of its own"),
        (COINCO.replace('freq="3"', 'freq="many"'), None, "cannot be read"),
        ("[]", None, "has no context with answers"),
        ('[{"context": "a", "answers": {"b": 0}}]', None, "Expected int >= 1"),
        ("{'a': {'b': 0.5}}", None, "cannot be read"),
        ("{'a': open('x')}", None, "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path, text, gold, message):
    path = tmp_path / "a"
    path.write_text(text)
    if gold is not None:
        (tmp_path / "gold").write_text(gold)
    with pytest.raises(TrueNegError, match=message) as error:
        read_people([path] if gold is None else [path, tmp_path / "gold"])
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
    assert read_people([Path(f"/dev/fd/{out}")]).targets == read_people([file]).targets
    os.close(out)
