"""SWORDS's, CoInCo's and SemEval-2007's formats: what is read, and what is refused in one line."""

from __future__ import annotations

import gzip

import pytest
from support.commands import shared_file
from support.judgements import content, write

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.people import Candidate, is_accepted, read_people


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
    """As in SWORDS's own evaluation: a candidate without another vote is none, and half of the votes are not enough."""
    made = content()
    made["substitute_labels"]["s:0-0"] = ["UNSURE"] * 3
    made["substitute_labels"]["s:0-1"] = ["TRUE"] * 5 + ["FALSE"] * 4 + ["UNSURE"]
    made["substitute_labels"]["s:0-2"] = ["TRUE"] * 5 + ["FALSE"] * 5
    great, huge, *_ = read_people([write(tmp_path / "a.json", made)]).targets[0].candidates
    assert (great.word, huge.word) == ("great", "huge")
    assert (is_accepted(great.share), is_accepted(huge.share)) == (True, False)


def test_coinco_in_the_same_format(tmp_path):
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


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"data": []}, "missing required field contexts"),
        ({**content(), "substitutes": {}}, "no target has candidates"),
        ([1], "Expected object, got int"),
    ],
)
def test_another_file_is_refused(tmp_path, made, message):
    path = write(tmp_path / "bad.json", made)
    with pytest.raises(TrueNegError) as error:
        read_people([path])
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_swords_development_set():
    found = read_people([shared_file("lexsub/swords-v1.1_dev.json.gz")])
    assert len(found.targets) == 370
    assert found.candidates == 22_969, "nobody was sure of nine others"
    assert sum(candidate.people for target in found.targets for candidate in target.candidates) == 1296 + 1133


COINCO = """<?xml version="1.0"?>
<document>
  <sent MASCfile="a.txt" MASCsentID="s-r0" >
    <precontext>
    They stop.
    </precontext>
    <targetsentence>
    "The large  child" stops &amp; walks
    </targetsentence>
    <postcontext>
    </postcontext>
    <tokens>
      <token id="XXX" wordform="The" lemma="the" posMASC="XXX" posTT="DT" />
      <token id="4" wordform="large" lemma="large" posMASC="JJ" posTT="JJ" problematic="no" >
        <substitutions>
          <subst lemma="big" pos="JJ" freq="3" />
          <subst lemma="of great size" pos="JJ" freq="1" />
        </substitutions>
      </token>
      <token id="5" wordform="child" lemma="child" posMASC="NN" posTT="NN" problematic="yes" >
        <substitutions>
          <subst lemma="kid" pos="NN" freq="5" />
        </substitutions>
      </token>
      <token id="6" wordform="walks" lemma="walk" posMASC="VBZ" posTT="VVZ" problematic="no" >
        <substitutions>
          <subst lemma="Go" pos="VV" freq="2" />
        </substitutions>
      </token>
    </tokens>
  </sent>
  <sent MASCfile="a.txt" MASCsentID="s-r1" >
    <precontext>
    </precontext>
    <targetsentence>
    A large film
    </targetsentence>
    <postcontext>
    </postcontext>
    <tokens>
      <token id="7" wordform="large" lemma="large" posMASC="JJ" posTT="JJ" problematic="no" >
        <substitutions>
          <subst lemma="great" pos="JJ" freq="2" />
        </substitutions>
      </token>
    </tokens>
  </sent>
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
    assert first.candidates == (
        Candidate("big", 3, 3, True),
        Candidate("of great size", 1, 1, True),
        Candidate("great", 0, 1, False),  # of the other target of the same lemma
    )
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
    assert found.targets[0].candidates == (
        Candidate("big", 3, 3, True),
        Candidate("of great size", 1, 1, True),
        Candidate("great", 0, 1, False),
    )
    assert found.targets[2].candidates == (Candidate("go", 3, 3, True),)


@pytest.mark.parametrize(
    ("content", "gold", "message"),
    [
        (SEMEVAL, None, "answers are in another file; give that too"),
        (SEMEVAL, "large.a 1 big 3", "line 1 of its gold file is 'large.a 1 big 3'"),
        (SEMEVAL, "large.a 1 :: big;", "line 1 of its"),
        (SEMEVAL, "large.a 9 :: big 3;", "no target has candidates"),
        ("<document></document>", None, r"no target has candidates\); expected SWORDS's JSON, CoInCo's XML"),
        ("<document>", None, "cannot be read"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><document>&b;</document>', None, "entities of its own"),
        (COINCO.replace('freq="3"', 'freq="many"'), None, "cannot be read"),
    ],
)
def test_broken_xml_is_refused(tmp_path, content, gold, message):
    path = tmp_path / "a.xml"
    path.write_text(content)
    if gold is not None:
        (tmp_path / "gold").write_text(gold)
    with pytest.raises(TrueNegError, match=message) as error:
        read_people([path] if gold is None else [path, tmp_path / "gold"])
    assert "\n" not in str(error.value)
