"""Lexical substitution as a yardstick of a masked LM: its rankings against what people say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..comparison.results import Result
from .metrics import CUT, Ratio, f_parts, generalized_average_precision, precision_at, recall_parts
from .places import Place, Placer
from .swords import NO_LEMMA, Judgements, TokenLemmas

if TYPE_CHECKING:
    from .model import MaskedLm

ACCEPTED, CONCEIVABLE = 0.5, 0.1
"""SWORDS: accepted is what more than half of those asked accept, conceivable what at least one in ten does."""

MODES = ("masked", "kept")
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


@dataclass(frozen=True)
class Gold:
    """What people say of one target's candidates; lemmas by their numbers, the target's own left out."""

    tokens: NDArray[np.int64]  # int64, shape (C,), the candidates that are one token
    votes: NDArray[np.float64]  # float64, shape (C,), how many accept each
    shares: NDArray[np.float64]  # float64, shape (C,), of those asked
    lemma_shares: dict[int, float]  # the share by lemma of every candidate, also of several words
    own: int  # the target's lemma

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
    """A model's metrics by mode, of :data:`MODES`, and candidates, of :data:`CANDIDATES`."""

    targets: tuple[str, ...]
    metrics: dict[tuple[str, str], dict[str, Ratio]]  # by mode, candidates and name, of :data:`METRICS`

    def results(self, model: str, seed: int, settings: Mapping[str, object]) -> list[Result]:
        """As lines of a result file: tasks "lexsub masked", "lexsub kept", and with " (people)" the people's alone."""
        return [
            Result(
                model=model,
                task=f"lexsub {mode}" + (" (people)" if candidates == "people" else ""),
                seed=seed,
                metrics={name: ratio.value for name, ratio in metrics.items()},
                examples={name: ratio.numerators.tolist() for name, ratio in metrics.items() if ratio.is_mean},
                example_ids=list(self.targets),
                settings=dict(settings),
            )
            for (mode, candidates), metrics in self.metrics.items()
        ]


class Benchmark:
    """A file's targets in the tokens of one vocabulary."""

    places: list[Place]
    """The targets that are one token and have a one-token candidate that somebody accepts."""
    gold: dict[str, list[Gold]]
    """What people say of these, by :data:`CANDIDATES`."""
    unknown: int
    """How many targets the vocabulary has no token for."""
    unranked: int
    """How many targets have no one-token candidate that somebody accepts."""

    def __init__(self, judgements: Judgements, placer: Placer) -> None:
        self._lemmas = TokenLemmas(placer.vocabulary)
        self._mask = placer.mask
        placed = [place for target in judgements.targets if (place := placer.place(target)) is not None]
        self.unknown = len(judgements.targets) - len(placed)
        gold = {name: [self._gold(place, people=name == "people") for place in placed] for name in CANDIDATES}
        ranked = [index for index, each in enumerate(gold["all"]) if each.votes.any()]
        self.unranked = len(placed) - len(ranked)
        self.places = [placed[index] for index in ranked]
        self.gold = {name: [each[index] for index in ranked] for name, each in gold.items()}

    def described(self, name: str) -> str:
        """How much of the file is measured."""
        candidates = np.concatenate([place.candidates for place in self.places])
        accepted = ", ".join(f"{sum(bool(each.accepted) for each in self.gold[kind])} ({kind})" for kind in CANDIDATES)
        return (
            f"{name}: {len(self.places)} targets; {self.unknown} are not one token of the dictionary and left out, "
            f"{self.unranked} have no one-token candidate that anybody accepts;\nGAP ranks "
            f"{(candidates >= 0).sum():,} of {len(candidates):,} candidates, the others are not one token; R@10 is a "
            f"mean over the targets with an accepted candidate: {accepted}"
        )

    def evaluate(self, model: MaskedLm) -> Scores:
        """The metrics of a model."""
        metrics: dict[tuple[str, str], dict[str, Ratio]] = {}
        for mode, mask in zip(MODES, (self._mask, None), strict=True):
            found: dict[str, dict[int, dict[str, tuple[float, float]]]] = {name: {} for name in CANDIDATES}
            for index, row in model.log_probabilities(self.places, mask):
                lemmas = self._lemmas.of_tokens(self.places[index].target.pos)
                ranked = lemmas[np.argsort(-row, kind="stable")]
                for name in CANDIDATES:
                    found[name][index] = _of_model(row, lemmas, ranked, self.gold[name][index])
            for name, parts in found.items():
                metrics[mode, name] = _ratios([parts[index] for index in range(len(self.places))])
        return Scores(self._names, metrics)

    def ceiling(self) -> Scores:
        """Upper bound: an oracle that ranks the judged words in the vocabulary by their votes.

        Where people refuse a word less than others it is still given, up to ten: as SWORDS's own oracle does.
        """
        metrics = {
            name: _ratios([self._of_oracle(*each) for each in zip(self.places, self.gold[name], strict=True)])
            for name in CANDIDATES
        }
        return Scores(self._names, {("ceiling", name): each for name, each in metrics.items()})

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
        )


def _ratios(parts: Sequence[dict[str, tuple[float, float]]]) -> dict[str, Ratio]:
    """Of what each target adds to numerator and denominator."""
    table = {name: np.array([each[name] for each in parts], dtype=np.float64).reshape(-1, 2) for name in METRICS}
    return {name: Ratio(*columns.T.copy()) for name, columns in table.items()}


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
    }


def _gap_parts(gains: NDArray[np.float64]) -> tuple[float, float]:
    return (generalized_average_precision(gains), 1.0) if gains.any() else (0.0, 0.0)


def _first_distinct(lemmas: NDArray[np.int64]) -> list[int]:
    """The first ten different ones, in order."""
    distinct, first = np.unique(lemmas, return_index=True)
    return [int(lemma) for lemma in distinct[np.argsort(first)[:CUT]]]
