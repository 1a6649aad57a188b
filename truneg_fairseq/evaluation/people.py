"""What people say of words in context, whoever collected it: SWORDS, CoInCo, SemEval-2007, cloze answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import TrueNegError
from ..files import read_bytes
from .cloze import COMMON, Answers, Context, read_answers
from .coinco_semeval import read_coinco, read_semeval
from .swords import LARGEST_FILE, Candidate, Judgements, Target, read_judgements

_ASKED, _CONCEIVED = 10, 2
"""Votes of a cloze answer: all of these for a common one, some for a rare one, none for a word that nobody wrote."""


def read_people(paths: Sequence[Path]) -> Judgements:
    """SWORDS's JSON, CoInCo's XML, SemEval-2007's XML with its gold file, or cloze answers; plain or packed."""
    path, *gold = paths
    content = read_bytes(path, expected="SWORDS's JSON, CoInCo's or SemEval-2007's XML", limit=LARGEST_FILE)
    if content.lstrip().startswith(b"<"):
        return read_semeval(path, content, gold) if b"<lexelt" in content else read_coinco(path, content)
    if content.lstrip().startswith((b"[", b"{'")):
        return of_answers(read_answers(path, content))
    return read_judgements(path, content)


def of_answers(answers: Answers) -> Judgements:
    """The word that the text has as the target; the answers, and as many words that nobody wrote there, as candidates.

    The latter are answers of other contexts, drawn as often as people gave them, or a word's frequency would tell.
    """
    counts = Counter[str]()
    for context in answers.contexts:
        counts.update(context.answers)
    words, shares = np.array(list(counts)), np.array(list(counts.values()), dtype=np.float64)
    targets, random = [], np.random.default_rng(1)
    for number, context in enumerate(answers.contexts):
        if context.word is None or not (given := _given(context)):
            continue
        drawn = random.choice(words, size=min(len(words), 4 * len(given)), p=shares / shares.sum())
        nobody = [word for word in dict.fromkeys(drawn.tolist()) if word not in context.answers][: len(given)]
        candidates = (*given, *(Candidate(word, 0, _ASKED, True) for word in nobody if word != context.word))
        text = f"{context.text} {context.word} ."
        targets.append(Target(str(number), text, len(context.text) + 1, context.word, "n", candidates))
    if not targets:
        raise TrueNegError(f"{answers.path}: no context has a known word and other answers; expected some")
    return Judgements(answers.path, answers.sha256, tuple(targets))


def _given(context: Context) -> list[Candidate]:
    """The answers but the word of the text."""
    return [
        Candidate(word, _ASKED if count >= COMMON * context.people else _CONCEIVED, _ASKED, True)
        for word, count in context.answers.items()
        if context.word is not None and word.lower() != context.word.lower()
    ]
