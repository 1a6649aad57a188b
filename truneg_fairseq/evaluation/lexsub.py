"""Lexical substitution as a yardstick of a masked LM: its rankings against what people say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..results.intervals import Ratio
from ..results.result import Result
from ..synonyms.table import SynonymTable
from .lexsub_controls import Predictor
from .lexsub_metrics import CUT, f_parts, generalized_average_precision, precision_at, recall_parts
from .lexsub_places import Place, place_target
from .swords import NO_LEMMA, Judgements, TokenLemmas
from .tokens import Tokens

ACCEPTED, CONCEIVABLE = 0.5, 0.1
"""SWORDS: accepted is what more than half of those asked accept, conceivable what at least one in ten does."""

MODES = ("masked", "kept")
ANY = "any"
"""The mode of what does not depend on the sentence's target: chance and the ceiling."""
CANDIDATES = ("all", "people")

METRICS = {
    "gap": "GAP",
    "gap_shares": "GAP shares",
    "f10_lenient_accepted": "Fa len.",
    "f10_lenient_conceivable": "Fc len.",
    "f10_strict_accepted": "Fa str.",
    "f10_strict_conceivable": "Fc str.",
    "precision_at_1": "P@1",
    "precision_at_3": "P@3",
    "recall_at_10": "R@10",
    "probability_accepted": "p(acc.)",
}
"""The metrics by their names in result files, with their headings."""

PARTS = {"recall_at_10_listed": "R@10 by listed words", "recall_at_10_others": "R@10 by others"}
"""R@10 in two parts that sum to it: hits that synonym tables list for the target, and all others."""


@dataclass(frozen=True)
class Gold:
    """What people say of one target's candidates; lemmas by their numbers, the target's own left out."""

    tokens: NDArray[np.int64]  # int64, shape (C,), the candidates that are one token
    votes: NDArray[np.float64]  # float64, shape (C,), how many accept each
    shares: NDArray[np.float64]  # float64, shape (C,), of those asked
    lemma_shares: dict[int, float]  # the share by lemma of every candidate, also of several words
    own: int  # the target's lemma
    listed: frozenset[int] = frozenset()  # the lemmas that synonym tables list for the target

    @cached_property
    def accepted(self) -> frozenset[int]:
        """The lemmas that more than half accept."""
        return frozenset(lemma for lemma, share in self.lemma_shares.items() if share > ACCEPTED)

    @cached_property
    def conceivable(self) -> frozenset[int]:
        """The lemmas that at least one in ten accepts."""
        return frozenset(lemma for lemma, share in self.lemma_shares.items() if share >= CONCEIVABLE)


@dataclass(frozen=True)
class Scores:
    """Metrics by mode, of :data:`MODES` or :data:`ANY`, and candidates, of :data:`CANDIDATES`."""

    targets: tuple[str, ...]
    metrics: dict[tuple[str, str], dict[str, Ratio]]  # by mode, candidates and name, of METRICS and PARTS

    def of(self, mode: str, candidates: str) -> dict[str, Ratio] | None:
        """The metrics of a mode, also of what does not depend on it; None where it was not measured."""
        return self.metrics.get((mode, candidates)) or self.metrics.get((ANY, candidates))

    def results(
        self, model: str, seed: int, settings: Mapping[str, object], chosen: NDArray[np.bool_] | None = None
    ) -> list[Result]:
        """As lines of a result file: tasks "lexsub masked", "lexsub kept", and with " (people)" the people's alone.

        With ``chosen``, shape (T,), of the targets with and without listed pairs: ", listed" and ", not listed" more.
        """
        whole = np.ones(len(self.targets), dtype=np.bool_)
        subsets = {"": whole} if chosen is None else {"": whole, ", listed": chosen, ", not listed": ~chosen}
        return [
            Result(
                model=model,
                task=f"lexsub {mode}" + (" (people)" if candidates == "people" else "") + name,
                seed=seed,
                metrics={name: metrics[name].of(subset).value for name in METRICS if metrics[name].of(subset).items},
                examples={
                    metric: metrics[metric].of(subset).numerators.tolist()
                    for metric in METRICS
                    if metrics[metric].of(subset).is_mean
                },
                example_ids=[target for target, there in zip(self.targets, subset, strict=True) if there],
                settings=dict(settings),
            )
            for (mode, candidates), metrics in self.metrics.items()
            for name, subset in subsets.items()
            if subset.any()
        ]


class Benchmark:
    """A file's targets in the tokens of one vocabulary.

    Args:
        judgements: the file.
        tokens: the vocabulary.
        tables: what a model may have been taught; targets and words that they list are reported apart.
    """

    places: list[Place]
    """The targets that are one token and have a one-token candidate that somebody accepts."""
    gold: dict[str, list[Gold]]
    """What people say of these, by :data:`CANDIDATES`."""
    unknown: int
    """How many targets the vocabulary has no token for."""
    unranked: int
    """How many targets have no one-token candidate that somebody accepts."""

    def __init__(self, judgements: Judgements, tokens: Tokens, tables: Sequence[SynonymTable] = ()) -> None:
        self._lemmas = TokenLemmas(tokens.vocabulary)
        self._mask, self._tables = tokens.mask, tables
        placed = [place for target in judgements.targets if (place := place_target(target, tokens)) is not None]
        self.unknown = len(judgements.targets) - len(placed)
        gold = {name: [self._gold(place, people=name == "people") for place in placed] for name in CANDIDATES}
        ranked = [index for index, each in enumerate(gold["all"]) if each.votes.any()]
        self.unranked = len(placed) - len(ranked)
        self.places = [placed[index] for index in ranked]
        self.gold = {name: [each[index] for index in ranked] for name, each in gold.items()}

    @property
    def listed(self) -> NDArray[np.bool_]:
        """The targets that a table lists one of the candidates for, accepted or not, in any form; shape (T,)."""
        return np.array([bool(gold.listed & gold.lemma_shares.keys()) for gold in self.gold["all"]], dtype=np.bool_)

    def described(self, name: str) -> str:
        """How much of the file is measured."""
        candidates = np.concatenate([place.candidates for place in self.places])
        return (
            f"{name}: {len(self.places)} targets; {self.unknown} are not one token of the dictionary and left out, "
            f"{self.unranked} have no one-token candidate that anybody accepts;\nGAP ranks "
            f"{(candidates >= 0).sum():,} of {len(candidates):,} candidates, the others are not one token"
        )

    def evaluate(self, predictor: Predictor, modes: Sequence[str] = MODES) -> Scores:
        """The metrics of a model or a control, in some of the modes."""
        metrics: dict[tuple[str, str], dict[str, Ratio]] = {}
        for mode in modes:
            found: dict[str, dict[int, list[NDArray[np.float64]]]] = {name: {} for name in CANDIDATES}
            for index, row in predictor.rows(self.places, self._mask if mode == "masked" else None):
                lemmas = self._lemmas.of_tokens(self.places[index].target.pos)
                ranked = lemmas[np.argsort(-row, kind="stable")]
                for name in CANDIDATES:
                    parts = _table(_of_model(row, lemmas, ranked, self.gold[name][index]))
                    found[name].setdefault(index, []).append(parts)
            for name, rows in found.items():
                metrics[mode, name] = _ratios([np.mean(rows[index], axis=0) for index in range(len(self.places))])
        return Scores(self._names, metrics)

    def ceiling(self) -> Scores:
        """Upper bound: an oracle that ranks the judged words in the vocabulary by their votes.

        Where people refuse a word less than others it is still given, up to ten: as SWORDS's own oracle does.
        """
        metrics = {
            name: _ratios([_table(self._of_oracle(*each)) for each in zip(self.places, self.gold[name], strict=True)])
            for name in CANDIDATES
        }
        return Scores(self._names, {(ANY, name): each for name, each in metrics.items()})

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(place.target.name for place in self.places)

    def _of_oracle(self, place: Place, gold: Gold) -> dict[str, tuple[float, float]]:
        expressible = set(self._lemmas.of_tokens(place.target.pos).tolist())
        known = [lemma for lemma in gold.lemma_shares if lemma in expressible]
        output = sorted(known, key=lambda lemma: -gold.lemma_shares[lemma])[:CUT]
        perfect = (1.0, 1.0) if gold.votes.any() else (0.0, 0.0)
        return {
            **{"gap": perfect, "gap_shares": perfect},
            **_of_output(output, output, gold),
            "probability_accepted": (float(any(lemma in gold.accepted for lemma in known)), 1.0),
        }

    def _gold(self, place: Place, *, people: bool) -> Gold:
        target = place.target
        chosen = [
            (token, candidate)
            for token, candidate in zip(place.candidates.tolist(), target.candidates, strict=True)
            if candidate.people or not people
        ]
        own = self._lemmas.of_word(target.word, target.pos)
        asked: dict[int, list[int]] = {}
        for _, candidate in chosen:
            lemma = self._lemmas.of_word(candidate.word, target.pos)
            if lemma != own:
                votes = asked.setdefault(lemma, [0, 0])
                votes[0] += candidate.votes
                votes[1] += candidate.asked
        single = [(token, candidate) for token, candidate in chosen if token >= 0]
        return Gold(
            tokens=np.array([token for token, _ in single], dtype=np.int64),
            votes=np.array([candidate.votes for _, candidate in single], dtype=np.float64),
            shares=np.array([candidate.share for _, candidate in single], dtype=np.float64),
            lemma_shares={lemma: votes / total for lemma, (votes, total) in asked.items()},
            own=own,
            listed=frozenset(
                self._lemmas.of_word(word, target.pos)
                for table in self._tables
                for token in table.synonyms(place.gold)
                if (word := self._lemmas.words[token]) is not None
            )
            - {own},
        )


def _table(parts: dict[str, tuple[float, float]]) -> NDArray[np.float64]:
    """What a target adds to numerator and denominator of each metric, shape (metrics, 2)."""
    return np.array([parts[name] for name in (*METRICS, *PARTS)], dtype=np.float64)


def _ratios(parts: Sequence[NDArray[np.float64]]) -> dict[str, Ratio]:
    """Of the parts of each target."""
    stacked = np.stack(parts, axis=1)
    return {name: Ratio(*columns.T.copy()) for name, columns in zip((*METRICS, *PARTS), stacked, strict=True)}


def _of_model(
    row: NDArray[np.float32], lemmas: NDArray[np.int64], ranked: NDArray[np.int64], gold: Gold
) -> dict[str, tuple[float, float]]:
    """What one target adds to each metric.

    Args:
        row: float32, shape (V,), logarithms of probabilities.
        lemmas: int64, shape (V,), every token's lemma.
        ranked: the same from likely to unlikely.
        gold: what people say.
    """
    order = np.argsort(-row[gold.tokens], kind="stable")
    words = ranked[(ranked != NO_LEMMA) & (ranked != gold.own)]
    judged = words[np.isin(words, list(gold.lemma_shares))]
    accepted = np.isin(lemmas, list(gold.accepted))
    return {
        "gap": _gap_parts(gold.votes[order]),
        "gap_shares": _gap_parts(gold.shares[order]),
        **_of_output(_first_distinct(words), _first_distinct(judged), gold),
        "probability_accepted": (float(np.exp(row[accepted].astype(np.float64)).sum()), 1.0),
    }


def _of_output(strict: Sequence[int], lenient: Sequence[int], gold: Gold) -> dict[str, tuple[float, float]]:
    return {
        "f10_lenient_accepted": f_parts(lenient, gold.accepted),
        "f10_lenient_conceivable": f_parts(lenient, gold.conceivable),
        "f10_strict_accepted": f_parts(strict, gold.accepted),
        "f10_strict_conceivable": f_parts(strict, gold.conceivable),
        "precision_at_1": (precision_at(strict, gold.accepted, 1), 1.0),
        "precision_at_3": (precision_at(strict, gold.accepted, 3), 1.0),
        "recall_at_10": recall_parts(strict, gold.accepted),
        "recall_at_10_listed": recall_parts(strict, gold.accepted, gold.listed),
        "recall_at_10_others": recall_parts(strict, gold.accepted, gold.accepted - gold.listed),
    }


def _gap_parts(gains: NDArray[np.float64]) -> tuple[float, float]:
    return (generalized_average_precision(gains), 1.0) if gains.any() else (0.0, 0.0)


def _first_distinct(lemmas: NDArray[np.int64]) -> list[int]:
    """The first ten different ones, in order."""
    distinct, first = np.unique(lemmas, return_index=True)
    return [int(lemma) for lemma in distinct[np.argsort(first)[:CUT]]]
