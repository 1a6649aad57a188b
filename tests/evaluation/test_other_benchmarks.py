"""CoInCo's and SemEval-2007's formats, written as they are published."""

from __future__ import annotations

import gzip
import json

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.lexsub_reading import read_any
from truneg_fairseq.evaluation.swords import Candidate

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
    found = read_any(path)
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


def older(word: str, offset: int, lemma: str, substitutes: dict[str, int], **raw: str) -> dict:
    made = [{"wprime": name, "human_labels": ["TRUE_IMPLICIT"] * count} for name, count in substitutes.items()]
    return {"w": word, "off": offset, "pos": ["ADJ"], "wprimes": made, "extra": {"raw": {"lemma": lemma, **raw}}}


def test_coinco_and_semeval_in_swordss_older_json(tmp_path):
    """As in the files of its tests, coinco-lemmatized_test and semeval07_test."""
    film = [
        older("Large", 0, "large", {"big": 3, "Big": 1}),
        older("quick", 6, "quick", {"fast": 2}, problematic="yes"),
        older("fi", 12, "film", {"movie": 1}),
        older(".", 16, ".", {}),
    ]
    sentences = [{"id": "s0", "s": "large quick film.", "ws": film}]
    sentences.append({"id": 301, "s": "A large car", "ws": [older("large", 2, "large", {"great": 2})]})
    path = tmp_path / "coinco.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"name": "CoInCo", "splits": ["test"], "ss": sentences}).encode()))
    found = read_any(path)
    assert words_at(found) == ["large", "fi", "large"]
    assert [target.name for target in found.targets] == ["s0:0", "s0:2", "301:0"]
    assert found.targets[0].candidates == (Candidate("big", 4, 4, True), Candidate("great", 0, 1, False))
    path.write_bytes(json.dumps({"name": "CoInCo", "ss": []}).encode())
    with pytest.raises(TrueNegError, match=r"coinco\.json\.gz: cannot be read \(no target has substitutes"):
        read_any(path)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_semeval(tmp_path, encoding):
    path, gold = tmp_path / "lst_all.xml", tmp_path / "lst_all.gold"
    path.write_bytes(SEMEVAL.replace("No ", "Né ").encode(encoding))
    gold.write_text(GOLD)
    found = read_any(path, gold)
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
        (SEMEVAL, None, "give it with --gold"),
        (SEMEVAL, "large.a 1 big 3", "line 1 is 'large.a 1 big 3'; expected SemEval-2007's gold lines"),
        (SEMEVAL, "large.a 1 :: big;", "line 1 is"),
        (SEMEVAL, "large.a 9 :: big 3;", "has no instance of the ids in"),
        ("<document></document>", None, r"no target has substitutes\); expected CoInCo's XML"),
        ("<document>", None, "cannot be read"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><document>&b;</document>', None, "entities of its own"),
        ('{"ss": [{"s": "a"}]}', None, "cannot be read"),
        (COINCO.replace('freq="3"', 'freq="many"'), None, "cannot be read"),
    ],
)
def test_other_files_are_refused(tmp_path, content, gold, message):
    path = tmp_path / "a.xml"
    path.write_text(content)
    if gold is not None:
        (tmp_path / "gold").write_text(gold)
    with pytest.raises(TrueNegError, match=message) as error:
        read_any(path, None if gold is None else tmp_path / "gold")
    assert "\n" not in str(error.value)
