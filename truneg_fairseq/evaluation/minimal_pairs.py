"""Minimal pairs: does a masked LM find the grammatical sentence more probable? BLiMP (Warstadt et al., TACL 2020) and
Zorro (Huebner et al., CoNLL 2021), which has a child's words.

A sentence's score is the sum over its tokens of their log-probability where they are masked (Salazar et al., ACL 2020).
A word of several tokens is too easy to guess from its own rest: with the correction of Kauf and Ivanova (ACL 2023) the
word's tokens to the right of the masked one are masked with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import parse_json
from ..results.intervals import Ratio
from ..results.result import Metric
from ..workers import Progress
from .models import OpenedModel
from .scorer import Query, Scorer, Tokens
from .yardstick import Scores, Task, Yardstick

_LARGEST_FILE = 64 << 20  # bytes
_SENTENCES = 512  # at once
_MOST_SHOWN = 30  # paradigms


class MinimalPair(Struct, frozen=True):
    """Two sentences, of which one is right, as BLiMP names them."""

    good: str = field(name="sentence_good")
    bad: str = field(name="sentence_bad")
    paradigm: str = field(name="UID")


class Blimp(Yardstick):
    """BLiMP's JSON lines, a paradigm a file, or folders of such files."""

    metrics: ClassVar[Mapping[str, Metric]] = {"accuracy": Metric("accuracy", True)}
    notes = (
        "minimal pairs: percent of the pairs whose grammatical sentence has the higher pseudo-log-likelihood "
        "(within-word l2r); a tie counts half; chance 50."
    )
    across_tokens = True
    group: ClassVar[str] = "minimal pairs"
    pattern, expected = "*.jsonl", 'BLiMP\'s JSON lines with "sentence_good", "sentence_bad" and "UID"'

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        files = [file for path in task.paths for file in (sorted(path.glob(self.pattern)) if path.is_dir() else [path])]
        found: dict[str, list[MinimalPair]] = {}
        for file, content in zip(files, self._read(files, self.expected, _LARGEST_FILE), strict=True):
            for pair in self.pairs_of(file, content):
                found.setdefault(pair.paradigm, []).append(pair)
        self.paradigms = {name: pairs[: task.limit] for name, pairs in found.items()}
        self.pairs = [pair for pairs in self.paradigms.values() for pair in pairs]
        self._require(self.pairs, self.expected)
        self.described = f"{self.group}: {len(self.pairs):,} pairs of {len(self.paradigms)} paradigms"

    def pairs_of(self, file: Path, content: bytes) -> Iterator[MinimalPair]:
        """The pairs in the content of a file."""
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                yield parse_json(line, f"{file}: line {number}", MinimalPair, expected=self.expected)

    def is_shown(self, task: str) -> bool:
        return task == self.group or len(self.paradigms) <= _MOST_SHOWN

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        texts = [pair.good for pair in self.pairs] + [pair.bad for pair in self.pairs]
        good, bad = np.split(pseudo_log_likelihoods(scorer, self._tokens, texts), 2)
        right = np.where(good == bad, 0.5, good > bad)
        names = [f"{name} {index}" for name, pairs in self.paradigms.items() for index in range(1, len(pairs) + 1)]
        found, start = {self.group: _scores(right, names)}, 0
        for name, pairs in self.paradigms.items():
            part = slice(start, start := start + len(pairs))
            found[f"{self.group}, {name}"] = _scores(right[part], names[part])
        return found


def _scores(right: NDArray[np.float64], names: list[str]) -> Scores:
    return Scores({"accuracy": Ratio(right, np.ones(len(right)))}, names)


class Zorro(Blimp):
    """Zorro's files, or a folder of them: a wrong sentence in each odd line, its right one in the next."""

    group: ClassVar[str] = "Zorro"
    pattern, expected = "*.txt*", "Zorro's texts, in which a wrong sentence is before each right one"

    def pairs_of(self, file: Path, content: bytes) -> Iterator[MinimalPair]:
        lines = content.decode(errors="replace").splitlines()
        if len(lines) % 2:
            raise TrueNegError(
                f"{file}: found {len(lines)} lines, of which the last has no partner; expected {self.expected}"
            )
        name = file.name.split(".")[0]
        for bad, good in zip(lines[::2], lines[1::2], strict=True):
            yield MinimalPair(good, bad, name)


def pseudo_log_likelihoods(scorer: Scorer, tokens: Tokens, texts: Sequence[str]) -> NDArray[np.float64]:
    """The scores of sentences, shape (N,); sentences of the same tokens have exactly the same score."""
    encoded = [tuple(each.tolist()) for each in tokens.encode_batch(texts)]
    different = list(dict.fromkeys(encoded))
    score: dict[tuple[int, ...], float] = {}
    with Progress(total=sum(map(len, different)), desc=scorer.path.name, unit=" places", leave=False) as bar:
        for start in range(0, len(different), _SENTENCES):
            part = different[start : start + _SENTENCES]
            masked = ((number, *each) for number, one in enumerate(part) for each in _masked_copies(one, tokens))
            score.update(zip(part, scorer.summed(masked, len(part), bar.update).tolist(), strict=True))
    return np.array([score[sentence] for sentence in encoded])


def _masked_copies(sentence: Sequence[int], tokens: Tokens) -> Iterator[tuple[Query, int]]:
    """The sentence with each of its tokens masked in turn, and the token."""
    whole, continues = tokens.framed(sentence), tokens.vocabulary.continues
    for position in range(1, len(whole) - 1):
        masked, end = whole.copy(), position + 1
        while end < len(whole) - 1 and continues[whole[end]]:
            end += 1
        masked[position:end] = tokens.mask
        yield Query(masked, position), int(whole[position])
