"""Writes CoInCo (Kremer, Erk, Pado, Thater, EACL 2014) or SemEval-2007 task 10 (McCarthy and Navigli) as SWORDS's JSON.

    python data-bin-scripts/judgements_to_swords.py coinco.xml OUT.json
    python data-bin-scripts/judgements_to_swords.py lst_all.xml lst_all.gold OUT.json

``truneg evaluate --task lexsub=OUT.json`` and ``truneg synonyms judge --judgements OUT.json`` read it. Each person
who wrote a substitute is a vote for it; the substitutes of the other targets of a lemma, which nobody wrote here, have
one vote against them: usual for GAP.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

_NOUN, _OTHERS = "NOUN", {"V": "VERB", "J": "ADJ", "R": "ADV", "v": "VERB", "a": "ADJ", "r": "ADV"}


class Target(NamedTuple):
    """A word in its context with what people wrote in its place."""

    name: str
    lemma: str
    pos: str  # SWORDS's
    context: str
    offset: int  # in characters
    word: str
    votes: Counter[str]


def coinco(content: bytes) -> Iterator[Target]:
    """The targets that are not marked as problematic, with the sentences around them."""
    if b"<!ENTITY" in content:
        raise ValueError("it has entities of its own")
    for number, sentence in enumerate(ElementTree.fromstring(content).iter("sent")):
        parts = ("precontext", "targetsentence", "postcontext")
        before, text, after = (" ".join((sentence.findtext(part) or "").split()) for part in parts)
        context, offset = " ".join(filter(None, (before, text, after))), len(before) + 1 if before else 0
        end = 0
        for token in sentence.iter("token"):
            word, name = token.attrib["wordform"].strip(), token.attrib["id"]
            start = text.find(word, end)
            if start < 0 or not word:  # some tokens are not in the text
                continue
            end = start + len(word)
            if name == "XXX" or token.attrib.get("problematic") != "no":
                continue
            votes = Counter[str]()
            for each in token.iter("subst"):
                votes[each.attrib["lemma"].strip().lower()] += int(each.attrib["freq"])
            pos, lemma = _OTHERS.get(token.attrib["posMASC"][:1], _NOUN), token.attrib["lemma"].lower()
            yield Target(f"{number}:{name}", lemma, pos, context, offset + start, word, votes)


def semeval(text: str, gold: str) -> Iterator[Target]:
    """No XML parser reads the file (bare "&", "&#8211 ;"), so its elements are searched for.

    The gold file has lines such as ``bright.a 1 :: intelligent 3;clever 2;``.
    """
    answers = dict[str, Counter[str]]()
    for line in filter(str.strip, gold.splitlines()):
        names, listed = line.split("::", 1)
        answers[names.split()[1]] = votes = Counter[str]()
        for each in filter(str.strip, listed.lstrip(":").split(";")):
            word, count = each.rsplit(maxsplit=1)
            votes[" ".join(word.split()).lower()] += int(count)
    for item, instances in _elements(text, "lexelt"):
        lemma, *rest = item.lower().split(".")
        for name, instance in _elements(instances, "instance"):
            _, context, inside = instance.partition("<context>")
            left, head, marked = inside.partition("</context>")[0].partition("<head>")
            if name in answers and context and head:
                middle, _, right = marked.partition("</head>")
                before, word, after = map(_text, (left, middle, right))
                before += " " if before and left[-1:].isspace() else ""
                after = " " + after if right[:1].isspace() else after
                pos = _OTHERS.get(rest[-1] if rest else "", _NOUN)
                yield Target(f"{item} {name}", lemma, pos, before + word + after, len(before), word, answers[name])


def _elements(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """The name and the rest of each element; the rest of the last one goes on to the end."""
    for part in text.split(f"<{kind}")[1:]:
        if named := re.match(r'\s+(?:item|id)="([^"]*)"', part):
            yield named[1], part[named.end() :]


def _text(raw: str) -> str:
    """Without the character references, also the broken ones ("&#8211 ;"), and with single spaces."""
    return " ".join(html.unescape(re.sub(r"(&#?\w+) ;", r"\1;", raw)).split())


def main(files: list[str]) -> None:
    if len(files) not in (2, 3):
        sys.exit(__doc__)
    *read, output = files
    content = [Path(file).read_bytes() for file in read]
    if len(read) == 1:
        found = list(coinco(content[0]))
    else:
        texts = []
        for each in content:
            try:
                texts.append(each.decode())
            except UnicodeDecodeError:
                texts.append(each.decode("latin-1"))
        found = list(semeval(texts[0], texts[1]))
    pool = defaultdict[tuple[str, str], dict[str, None]](dict)
    for target in found:
        pool[target.lemma, target.pos] |= dict.fromkeys(+target.votes)
    made: dict[str, dict[str, object]] = {"contexts": {}, "targets": {}, "substitutes": {}, "substitute_labels": {}}
    for target in found:
        made["contexts"][target.name] = {"context": target.context}
        named = {"context_id": target.name, "target": target.word, "offset": target.offset, "pos": target.pos}
        made["targets"][target.name] = named
        wrote = +target.votes  # without what nobody wrote
        for word in [*wrote, *(each for each in pool[target.lemma, target.pos] if each not in wrote)] if wrote else []:
            key, sources = f"{target.name} {word}", ["coinco"] if word in wrote else ["other targets"]
            made["substitutes"][key] = {"target_id": target.name, "substitute": word, "extra": {"sources": sources}}
            made["substitute_labels"][key] = ["TRUE"] * wrote[word] or ["FALSE"]
    Path(output).write_text(json.dumps(made), encoding="utf-8")
    print(f"wrote {output}: {len(found):,} targets")


if __name__ == "__main__":
    main(sys.argv[1:])
