"""People's cloze answers: the words that they wrote next, against what a model finds probable there.

Two formats: a JSON list of {"context", "word", "answers"}, and the file of distributions that de Varda, Marelli and
Amenta (Behavior Research Methods 56, 2024) publish.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from scipy import stats
from typing_extensions import override

from ..errors import TrueNegError, unreadable
from ..files import parse_json, read_bytes
from ..results.intervals import Ratio
from ..results.result import BITS, Metric
from .models import OpenedModel, load_table
from .scorer import WINDOW, Query, Scorer
from .tokens import Tokens
from .yardstick import Scores, Task, Yardstick

COMMON = 0.05
"""A common answer is from at least this share of the people."""
BEST = 10
"""Words that a model may give."""
LARGEST_FILE = 256 << 20  # bytes, unpacked
_TRUST = 0.9  # in the other half of the people; the rest is uniform
_MOST = 1_000_000  # people who give one answer
_UNKNOWN = "unk"
_EXPECTED = (
    'people\'s answers: a JSON list of {"context", "word", "answers": {word: count}}, or cloze_laplace.txt of '
    "github.com/Andrea-de-Varda/prediction-resource"
)
TASK, CORPUS_TASK = "cloze", "cloze corpus word"


class _Item(Struct):
    context: str
    answers: dict[str, Annotated[int, Meta(ge=1, le=_MOST)]]
    word: str | None = None


@dataclass(frozen=True)
class Context:
    """The beginning of a sentence, and what people wrote as its next word."""

    text: str
    word: str | None  # that the text itself goes on with; None where it is not known
    answers: dict[str, int]  # how many people gave each, at least one

    @property
    def people(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True)
class Answers:
    """A file's content."""

    path: Path
    sha256: str  # hexadecimal, of the unpacked file
    contexts: tuple[Context, ...]


def read_answers(path: Path, content: bytes | None = None) -> Answers:
    """Reads a file of either format, plain or packed; contexts without answers are left out.

    ``content`` is that of the file, unpacked, if it has been read.
    """
    if content is None:
        content = read_bytes(path, expected=_EXPECTED, limit=LARGEST_FILE)
    if content.lstrip().startswith(b"{'"):
        contexts = _published(path, content)
    else:
        items = parse_json(content, str(path), list[_Item], expected=_EXPECTED)
        contexts = [Context(item.context, item.word, item.answers) for item in items]
    answered = tuple(context for context in contexts if context.answers and context.text.strip())
    if not answered:
        raise TrueNegError(f"{path}: has no context with answers; expected {_EXPECTED}")
    return Answers(path, hashlib.sha256(content).hexdigest(), answered)


def _published(path: Path, content: bytes) -> list[Context]:
    """Counts from a Python literal {context: {word: p}}, with p = (count + 1) / N and p(unk) = 1 / N.

    The corpus's word is recovered from the next context, where that is unique.
    """
    try:
        found: Any = ast.literal_eval(content.decode())
        counts = {
            context: {
                word: round(p / answers[_UNKNOWN]) - 1
                for word, p in answers.items()
                if word != _UNKNOWN and round(p / answers[_UNKNOWN]) > 1
            }
            for context, answers in found.items()
        }
        if max((count for answers in counts.values() for count in answers.values()), default=0) > _MOST:
            raise ValueError("its probabilities are not those of counts")
    except Exception as error:  # other literals fail in many ways
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {_EXPECTED}") from None
    following = defaultdict(set)
    for context in counts:
        before, _, word = context.rpartition(" ")
        following[before].add(word)
    return [
        Context(context, following[context].pop() if len(following[context]) == 1 else None, answers)
        for context, answers in counts.items()
    ]


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

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        (path,) = task.paths
        answers, table = read_answers(path), None
        if task.synonym_table is not None:
            table = load_table(task.synonym_table, tokens, tokens.folder or last.path)
        self._answers, self._table, self._tokens, self.sha256 = answers, table, tokens, answers.sha256
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
            found = np.array(list(counts), dtype=np.int64)
            gold = -1 if context.word is None else tokens.token(context.word)
            self.items.append(
                Item(
                    name=context.text,
                    query=_query(before[-(WINDOW - 4) :], tokens, full_stop),
                    people=context.people,
                    answers=found,
                    counts=np.array(list(counts.values()), dtype=np.float64),
                    word_known=context.word is not None,
                    word=gold,
                    listed=np.isin(found, table.synonyms(gold)) if table is not None and gold >= 0 else found < 0,
                )
            )
        if not self.items:
            raise TrueNegError(f"{path}: no answer is a token of the model; expected the model's language")

    @property
    @override
    def described(self) -> str:
        contexts = self._answers.contexts
        people = sum(context.people for context in contexts)
        kept = sum(float(item.counts.sum()) for item in self.items)
        text = (
            f"cloze: {len(self.items):,} of {len(contexts):,} contexts, {people:,.0f} answers; "
            f"{100 * (1 - kept / people):.1f} % of the answers are not one token and left out; "
        )
        if self._tokens.mask is None:
            text += (
                "read from left to right: a word's probability is its token's, which longer words begin with too, so "
                "compare bits with models of the same tokens alone"
            )
        else:
            text += "read as 'context [MASK] .', so the context on the right is a full stop"
        known = [item for item in self.items if item.word >= 0]
        for kind in ("others", "common") if self._table is not None and known else ():
            chosen = [(item.counts * getattr(item, kind), item.listed) for item in known]
            total = sum(float(counts.sum()) for counts, _ in chosen)
            share = 100 * sum(float(counts[listed].sum()) for counts, listed in chosen) / max(1.0, total)
            text += f"\nThe table lists {share:.2f} % of the answers of p({kind})"
        return text

    @override
    def shown(self, task: str) -> Mapping[str, Metric]:
        return self.metrics if task == TASK else {BITS: self.metrics[BITS]}

    @override
    def score(self, scorer: Scorer) -> dict[str, Scores]:
        def rows() -> Iterator[tuple[int, NDArray[np.floating]]]:
            for batch, found in scorer.log_probabilities([item.query for item in self.items]):
                yield from zip(batch, found.cpu().numpy(), strict=True)

        return self._scores(rows(), self.items)

    @override
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

    def _scores(self, rows: Iterable[tuple[int, NDArray[np.floating]]], items: list[Item]) -> dict[str, Scores]:
        names = [*(name for name in self.metrics if name != "listed" or self._table is not None), CORPUS_TASK]
        values = np.full((len(names), len(items)), np.nan)
        for index, row in rows:
            found = self._of_row(row.astype(np.float64), items[index])
            values[:, index] = [found.get(name, np.nan) for name in names]
        defined = np.isfinite(values) | np.isposinf(values)
        ratios = {
            name: Ratio(np.where(there, value, 0.0), there.astype(np.float64))
            for name, value, there in zip(names, values, defined, strict=True)
        }
        corpus, names_of_items = ratios.pop(CORPUS_TASK), [item.name for item in items]
        return {TASK: Scores(ratios, names_of_items)} | (
            {CORPUS_TASK: Scores({BITS: corpus}, names_of_items)} if corpus.items else {}
        )

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


def _query(before: NDArray[np.int64], tokens: Tokens, full_stop: int) -> Query:
    """The place of the mask before a full stop, or the last place of the context where there is no mask."""
    if tokens.mask is None:
        return Query(np.array([tokens.begin, *before], dtype=np.int64), len(before))
    sequence = tokens.framed([*before, tokens.mask, full_stop])
    return Query(sequence, len(sequence) - 3)


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
