"""People's cloze answers as a yardstick of a language model: its probabilities where they wrote a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..results.intervals import Ratio
from ..results.paired import Column
from ..results.result import BITS, Result
from ..synonyms.table import SynonymTable
from .cloze_answers import Answers
from .scorer import WINDOW, MaskedLm, Query
from .tokens import Tokens

COMMON = 0.05
"""A common answer is from at least this share of the people."""
BEST = 10
"""Words that a model may give."""
_TRUST = 0.9  # in the other half of the people; the rest is uniform

TASK, CORPUS_TASK = "cloze", "cloze corpus word"
"""The tasks of result files."""

CORPUS_BITS = "corpus_bits"
COLUMNS = (
    Column(BITS, "bits", 1.0, 3),
    Column("said", "p(said)"),
    Column("others", "p(others)"),
    Column("common", "p(common)"),
    Column("listed", "p(listed)"),
    Column("replaced", "replaced"),
    Column("spearman", "Spearman"),
    Column("best_said", "best said"),
    Column("best_10_said", "best 10 said"),
    Column(CORPUS_BITS, "corpus bits", 1.0, 3),
)
"""The metrics with their headings."""


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


class Benchmark:
    """A file's contexts in the tokens of one vocabulary; ``table`` is what a model may have been taught."""

    items: list[Item]
    """The contexts with an answer that is one token."""

    def __init__(self, answers: Answers, tokens: Tokens, table: SynonymTable | None = None) -> None:
        self._answers, self._table, self._size = answers, table, len(tokens.vocabulary)
        self._unigrams, self._masked = tokens.counts, tokens.mask is not None
        words = tokens.vocabulary.words
        self._is_word = np.array([word is not None and any(map(str.isalpha, word)) for word in words])
        full_stop = int(tokens.encode_batch(["it."])[0][-1])
        encoded = tokens.encode_batch([context.text for context in answers.contexts])
        self.items = []
        for context, before in zip(answers.contexts, encoded, strict=True):
            counts: dict[int, int] = {}
            for word, count in context.answers.items():
                token = tokens.token(word)
                if token >= 0:
                    counts[token] = counts.get(token, 0) + count
            if not counts:
                continue
            query = _query(before[-(WINDOW - 4) :], tokens, full_stop)
            found = np.array(list(counts), dtype=np.int64)
            gold = -1 if context.word is None else tokens.token(context.word)
            listed = np.isin(found, table.synonyms(gold)) if table is not None and gold >= 0 else found < 0
            self.items.append(
                Item(
                    name=context.text,
                    query=query,
                    people=context.people,
                    answers=found,
                    counts=np.array(list(counts.values()), dtype=np.float64),
                    word_known=context.word is not None,
                    word=gold,
                    listed=listed,
                )
            )

    def described(self, name: str) -> list[str]:
        """How much of the file is measured, and how much of it the table lists."""
        contexts = self._answers.contexts
        people = sum(context.people for context in contexts)
        kept = sum(float(item.counts.sum()) for item in self.items)
        lines = [
            f"{name}: {len(self.items):,} of {len(contexts):,} contexts, {people:,.0f} answers; "
            f"{100 * (1 - kept / people):.1f} % of the answers are not one token and left out",
            "Read as 'context [MASK] .': the context on the right is a full stop."
            if self._masked
            else "Read from left to right.",
        ]
        known = [item for item in self.items if item.word >= 0]
        if self._table is not None and known:
            shares = []
            for kind in ("others", "common"):
                chosen = [(item.counts * getattr(item, kind), item.listed) for item in known]
                total = sum(float(counts.sum()) for counts, _ in chosen)
                shares.append(100 * sum(float(counts[listed].sum()) for counts, listed in chosen) / max(1.0, total))
            lines.append(
                f"The table lists {shares[0]:.2f} % of the answers that are not the corpus's word, {shares[1]:.2f} % "
                f"of those that at least {100 * COMMON:g} % of the people give"
            )
        return lines

    def evaluate(self, model: MaskedLm) -> dict[str, Ratio]:
        """The metrics of a model."""
        return self._scores(_rows(model, [item.query for item in self.items]), self.items)

    def controls(self) -> dict[str, dict[str, Ratio]]:
        """What needs no training, by name: chance, frequency, half of the people for the other, the people."""
        random, even = np.random.default_rng(1), np.full(self._size, -np.log(self._size))
        found = {
            "chance": self._scores(
                ((index, even + 1e-6 * random.standard_normal(self._size)) for index in range(len(self.items))),
                self.items,
            )
        }
        if self._unigrams is not None:
            frequency = np.log((self._unigrams + 1) / (self._unigrams + 1).sum())
            found["frequency"] = self._scores(((index, frequency) for index in range(len(self.items))), self.items)
        halves = [_halved(item, random) for item in self.items]
        of_halves = ((index, self._estimate(known, _TRUST)) for index, (known, _) in enumerate(halves))
        found["half of the people"] = self._scores(of_halves, [asked for _, asked in halves])
        of_all = ((index, self._estimate(item, 1.0)) for index, item in enumerate(self.items))
        found["people"] = self._scores(of_all, self.items)
        return found

    def results(
        self, scores: Mapping[str, Ratio], model: str, seed: int, settings: Mapping[str, object]
    ) -> list[Result]:
        """As lines of a result file: "cloze", and the loss of the corpus's word apart."""
        own = {name: ratio for name, ratio in scores.items() if name != CORPUS_BITS}
        tasks = {TASK: own}
        if scores[CORPUS_BITS].items:
            tasks[CORPUS_TASK] = {BITS: scores[CORPUS_BITS]}
        return [
            Result(
                model=model,
                task=task,
                seed=seed,
                metrics={name: ratio.value for name, ratio in found.items() if ratio.items},
                examples={name: ratio.numerators.tolist() for name, ratio in found.items() if ratio.is_mean},
                example_ids=[item.name for item in self.items],
                settings=dict(settings),
            )
            for task, found in tasks.items()
        ]

    def _estimate(self, item: Item, trust: float) -> NDArray[np.float64]:
        """The logarithms of the answers' shares, with a uniform rest, shape (V,)."""
        row = np.full(self._size, (1 - trust) / self._size)
        if item.counts.sum():
            row[item.answers] += trust * item.counts / item.counts.sum()
        with np.errstate(divide="ignore"):
            return np.log(row)

    def _scores(self, rows: Iterable[tuple[int, NDArray[np.floating]]], items: list[Item]) -> dict[str, Ratio]:
        names = [column.name for column in COLUMNS if column.name != "listed" or self._table is not None]
        parts = np.zeros((len(items), len(names), 2))
        for index, row in rows:
            found = self._of_row(row.astype(np.float64), items[index])
            for number, name in enumerate(names):
                value = found.get(name)
                parts[index, number] = (0.0, 0.0) if value is None else (value, 1.0)
        return {name: Ratio(*parts[:, number].T.copy()) for number, name in enumerate(names)}

    def _of_row(self, row: NDArray[np.float64], item: Item) -> dict[str, float | None]:
        """A context's metrics, of the logarithms of the probabilities, shape (V,); None where it has none."""
        if not len(item.answers):
            return {}
        log, probability = row[item.answers], np.exp(row[item.answers])
        others = float(probability[item.others].sum()) if item.word_known else None
        # of all words but the corpus word; 0 where the model is so sure of that word that in fp32 nothing is left
        elsewhere = -float(np.expm1(row[item.word])) if item.word >= 0 else 0.0
        shares = item.counts / item.counts.sum()
        words = np.where(self._is_word, row, -np.inf)
        best = np.argpartition(-words, BEST - 1)[:BEST]
        said = np.isin(best, item.answers)
        return {
            BITS: float(-(shares * log).sum() / np.log(2)),
            "said": float(probability.sum()),
            "others": others,
            "common": float(probability[item.common].sum()) if item.word_known else None,
            "listed": float(probability[item.listed].sum()) if item.word >= 0 else None,
            "replaced": others / elsewhere if others is not None and elsewhere > 0 else None,
            "spearman": _rank_correlation(item.counts, log),
            "best_said": float(said[words[best].argmax()]),
            "best_10_said": float(said.mean()),
            CORPUS_BITS: float(-row[item.word] / np.log(2)) if item.word >= 0 else None,
        }


def _query(before: NDArray[np.int64], tokens: Tokens, full_stop: int) -> Query:
    """The place of the mask before a full stop, or the last place of the context where there is no mask."""
    if tokens.mask is None:
        return Query(np.array([tokens.begin, *before], dtype=np.int64), len(before))
    sequence = tokens.framed([*before, tokens.mask, full_stop])
    return Query(sequence, len(sequence) - 3)


def _rows(model: MaskedLm, queries: list[Query]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    for batch, found in model.log_probabilities(queries):
        yield from zip(batch, found.cpu().numpy(), strict=True)


def _rank_correlation(counts: NDArray[np.float64], log: NDArray[np.float64]) -> float | None:
    """Spearman's; 0 where all have the same probability, None where all have the same count."""
    if np.ptp(counts) == 0:
        return None
    return float(stats.spearmanr(counts, log).statistic) if np.ptp(log) else 0.0


def _halved(item: Item, random: np.random.Generator) -> tuple[Item, Item]:
    """The answers of two random halves of the people."""
    everybody = random.permutation(np.repeat(np.arange(len(item.answers)), item.counts.astype(np.int64)))
    halves = []
    for half in np.array_split(everybody, 2):
        counts = np.bincount(half, minlength=len(item.answers)).astype(np.float64)
        there = counts > 0
        halves.append(
            replace(
                item,
                people=item.people // 2,
                answers=item.answers[there],
                counts=counts[there],
                listed=item.listed[there],
            )
        )
    return halves[0], halves[1]
