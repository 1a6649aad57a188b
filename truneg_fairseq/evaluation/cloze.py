"""People's cloze answers: the words that they wrote next, against what a model finds probable there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..results.result import BITS, Metric
from .models import OpenedModel
from .people import COMMON, read_answers
from .scorer import WINDOW, Query, Rows, Scorer, Tokens
from .yardstick import Scores, Task, Yardstick, ratios_of

BEST = 10  # words that a model may give
TASK, CORPUS_TASK = "cloze", "cloze corpus word"
_TRUST = 0.9  # in the other half of the people; the rest is uniform


@dataclass(frozen=True)
class Item:
    """A context in a vocabulary's tokens."""

    name: str  # its text
    query: Query
    people: int  # all who answered
    answers: NDArray[np.int64]  # int64, shape (A,), the answers that are one token
    counts: NDArray[np.float64]  # float64, shape (A,), how many people gave each
    word_known: bool  # whether the file has the corpus's word
    word: int  # its token; -1 where it is not one, or not known
    listed: NDArray[np.bool_]  # bool, shape (A,), the answers that the synonym table lists for the corpus's word

    @property
    def others(self) -> NDArray[np.bool_]:
        """The answers that are not the corpus's word, shape (A,)."""
        return self.answers != self.word

    @property
    def common(self) -> NDArray[np.bool_]:
        """The others that many people gave, shape (A,)."""
        return self.others & (self.counts >= COMMON * self.people)


class Cloze(Yardstick):
    """A file's contexts with an answer that is one token of the vocabulary."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        BITS: Metric("bits", False, BITS),
        "said": Metric("p(said)", True),
        "others": Metric("p(others)", True),
        "common": Metric("p(common)", True),
        "listed": Metric("p(listed)"),
        "replaced": Metric("replaced", True),
        "spearman": Metric("Spearman", True),
        "best_said": Metric("best said", True),
        "best_10_said": Metric("best 10 said", True),
    }
    notes = (
        "cloze: bits is the cross-entropy of the people's distribution; p(said) the probability of all that they say, "
        "p(others) of all but the corpus's word, p(common) of what at least 5 % say. replaced: if the model may not "
        "give the corpus's word, the probability of a word that people gave. best (10) said: the share of the model's "
        "best (ten) that somebody said. half of the people: measured by the other half. people: the best possible bits."
    )
    reads_causal = True

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        answers, self._table, self.items = read_answers(self._file), self._load_table(), []
        self.sha256 = answers.sha256
        encoded = tokens.encode_batch([context.text for context in answers.contexts])
        for context, before in zip(answers.contexts, encoded, strict=True):
            counts: dict[int, int] = {}
            for word, count in context.answers.items():
                if (token := tokens.token(word)) >= 0:
                    counts[token] = counts.get(token, 0) + count
            if not counts:
                continue
            found = np.array(list(counts), dtype=np.int64)
            gold = -1 if context.word is None else tokens.token(context.word)
            self.items.append(
                Item(
                    name=context.text,
                    query=tokens.next_word(before[-(WINDOW - 4) :]),
                    people=context.people,
                    answers=found,
                    counts=np.array(list(counts.values()), dtype=np.float64),
                    word_known=context.word is not None,
                    word=gold,
                    listed=np.isin(found, self._table.synonyms(gold)) if self._table and gold >= 0 else found < 0,
                )
            )
        self._require(self.items, "answers that are tokens of the model")
        people = sum(context.people for context in answers.contexts)
        lost = 1 - sum(float(item.counts.sum()) for item in self.items) / people
        self.described = (
            f"cloze: {len(self.items):,} of {len(answers.contexts):,} contexts, {people:,.0f} answers; "
            f"{100 * lost:.1f} % of the answers are not one token and left out; "
        ) + (
            "read as 'context [MASK] .', so the context on the right is a full stop"
            if tokens.mask is not None
            else "read from left to right: a word's probability is its token's, which longer words begin with too, so "
            "compare bits with models of the same tokens alone"
        )
        known = [item for item in self.items if item.word >= 0]
        for kind in ("others", "common") if self._table and known else ():
            chosen = [(item.counts * getattr(item, kind), item.listed) for item in known]
            total = sum(float(counts.sum()) for counts, _ in chosen)
            share = 100 * sum(float(counts[listed].sum()) for counts, listed in chosen) / max(1.0, total)
            self.described += f"\nThe table lists {share:.2f} % of the answers of p({kind})"

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        return self._scores(scorer.rows([item.query for item in self.items]), self.items)

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        size, numbers = len(self._tokens.vocabulary), range(len(self.items))
        random, even = np.random.default_rng(1), np.full(size, -np.log(size))
        chance = ((index, even + 1e-6 * random.standard_normal(size)) for index in numbers)
        found = {"chance": self._scores(chance, self.items)}
        if self._tokens.counts is not None:
            frequency = np.log((self._tokens.counts + 1) / (self._tokens.counts + 1).sum())
            found["frequency"] = self._scores(((index, frequency) for index in numbers), self.items)
        halves = [_halved(item, random) for item in self.items]
        known = ((index, _estimate(half, _TRUST, size)) for index, (half, _) in enumerate(halves))
        found["half of the people"] = self._scores(known, [asked for _, asked in halves])
        everybody = ((index, _estimate(item, 1.0, size)) for index, item in enumerate(self.items))
        found["people"] = self._scores(everybody, self.items)
        return found

    def _scores(self, rows: Rows, items: list[Item]) -> dict[str, Scores]:
        values = {index: self._of_row(row.astype(np.float64), items[index]) for index, row in rows}
        parts = [{name: (value, 1.0) for name, value in values[index].items()} for index in range(len(items))]
        metrics = [name for name in self.metrics if name != "listed" or self._table]
        names, corpus = [item.name for item in items], ratios_of(parts, [CORPUS_TASK])[CORPUS_TASK]
        scores = {TASK: Scores(ratios_of(parts, metrics), names)}
        return scores | ({CORPUS_TASK: Scores({BITS: corpus}, names)} if corpus.items else {})

    def _of_row(self, row: NDArray[np.float64], item: Item) -> dict[str, float]:
        """A context's metrics, of the logarithms of the probabilities, shape (V,); those that it has."""
        if not len(item.answers):
            return {}
        log, everything = row[item.answers], np.exp(row)
        probability, shares = everything[item.answers], item.counts / item.counts.sum()
        words = np.where(self._tokens.is_word, row, -np.inf)
        best = np.argpartition(-words, BEST - 1)[:BEST]
        said = np.isin(best, item.answers)
        found = {
            BITS: float(-(shares * log).sum() / np.log(2)),
            "said": float(probability.sum()),
            "best_said": float(said[words[best].argmax()]),
            "best_10_said": float(said.mean()),
        }
        if np.ptp(item.counts):
            found["spearman"] = float(stats.spearmanr(item.counts, log).statistic) if np.ptp(log) else 0.0
        if item.word_known:
            found |= {"others": float(probability[item.others].sum())}
            found |= {"common": float(probability[item.common].sum())}
        if item.word >= 0:
            found["listed"] = float(probability[item.listed].sum())
            found[CORPUS_TASK] = float(-row[item.word] / np.log(2))
            everything[item.word] = 0.0  # not 1 - p, of which fp32 leaves nothing where the model is sure
            if elsewhere := float(everything.sum()):
                found["replaced"] = found["others"] / elsewhere
        return found


def _estimate(item: Item, trust: float, size: int) -> NDArray[np.float64]:
    """The logarithms of the answers' shares, with a uniform rest, shape (V,)."""
    row = np.full(size, (1 - trust) / size)
    if item.counts.sum():
        row[item.answers] += trust * item.counts / item.counts.sum()
    with np.errstate(divide="ignore"):
        return np.log(row)


def _halved(item: Item, random: np.random.Generator) -> tuple[Item, Item]:
    """The answers of two random halves of the people."""
    everybody = random.permutation(np.repeat(np.arange(len(item.answers)), item.counts.astype(np.int64)))
    halves = []
    for half in np.array_split(everybody, 2):
        counts = np.bincount(half, minlength=len(item.answers)).astype(np.float64)
        there = counts > 0
        own = replace(item, people=item.people // 2, answers=item.answers[there], counts=counts[there])
        halves.append(replace(own, listed=item.listed[there]))
    return halves[0], halves[1]
