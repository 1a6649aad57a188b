"""What people say of a synonym table, and of a detector's ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from ..results.intervals import Interval, Ratio
from ..synonyms.table import SynonymTable
from ..vocabulary import Vocabulary
from .judged_pairs import ACCEPTED, CONCEIVABLE, JudgedPairs
from .lexsub_places import Place
from .swords import Lemmatizer

SAMPLES = 500
"""Resamples of targets for a ranking: each is sorted anew."""


@dataclass(frozen=True)
class TableJudgement:
    """A table's pairs at the targets of a file, by what people say of the lemma of the synonym."""

    pairs: int  # how many the table lists for the targets
    own: Ratio  # share of them with the target's own lemma, another form of the same word
    unjudged: Ratio  # share that nobody was asked about
    accepted: Ratio  # share that at least half accept
    conceivable: Ratio  # share that at least one in ten accepts
    judged: Ratio  # accepted among those that people were asked about, the table's precision there
    recall: Ratio  # of the accepted one-token candidates, those that some pair has the lemma or the word of
    listed: int  # how many judged one-token candidates the table lists as they stand: where a detector is compared


def judge_table(
    table: SynonymTable, pairs: JudgedPairs, vocabulary: Vocabulary, lemmatizer: Lemmatizer
) -> TableJudgement:
    """Looks the lemmas of a table's pairs up among the candidates."""
    kinds = np.array([_kinds(table, place, vocabulary, lemmatizer) for place in pairs.places], dtype=np.float64)
    kinds = kinds.reshape(-1, 6)
    total, own, unjudged, accepted, conceivable, found = kinds.T
    wanted = np.bincount(pairs.target[pairs.accepted], minlength=len(pairs.places)).astype(np.float64)
    return TableJudgement(
        pairs=int(total.sum()),
        own=Ratio(own, total),
        unjudged=Ratio(unjudged, total),
        accepted=Ratio(accepted, total),
        conceivable=Ratio(conceivable, total),
        judged=Ratio(accepted, total - own - unjudged),
        recall=Ratio(found, wanted),
        listed=int(pairs.listed(table).sum()),
    )


def _kinds(table: SynonymTable, place: Place, vocabulary: Vocabulary, lemmatizer: Lemmatizer) -> list[int]:
    """Of one target: pairs, own forms, unjudged, accepted, conceivable; accepted one-token candidates found."""
    target = place.target
    shares = {candidate.word: candidate.share for candidate in target.candidates}
    tokens = {each.word: int(token) for each, token in zip(target.candidates, place.candidates, strict=True)}
    own = lemmatizer.lemma(target.word, target.pos)
    counts, found = [0, 0, 0, 0, 0], set()
    for synonym in table.synonyms(place.gold):
        word = vocabulary.words[synonym] or ""
        lemma = lemmatizer.lemma(word, target.pos)
        known = lemma if lemma in shares else word.lower()
        share = shares.get(known)
        counts[0] += 1
        counts[1] += lemma == own
        if lemma != own:
            counts[2] += share is None
            if share is not None and share >= ACCEPTED:
                counts[3] += 1
                found.add(tokens[known])
            counts[4] += share is not None and share >= CONCEIVABLE
    return [*counts, len(found - {-1})]


@dataclass(frozen=True)
class RankingJudgement:
    """How a score ranks the judged one-token candidates."""

    average_precision: Interval  # of the accepted ones, in [0, 1]
    area: Interval  # under the ROC curve
    precision: dict[int, Interval]  # by number of pairs, the accepted share of so many of the highest scores
    conceivable: dict[int, Interval]  # by number of pairs, the conceivable share


def judge_scores(
    pairs: JudgedPairs, score: NDArray[np.float64], cuts: Sequence[int], *, samples: int = SAMPLES
) -> RankingJudgement:
    """Average precision, ROC area and precision of a score with 95 % bootstrap intervals over targets.

    Args:
        pairs: the pairs.
        score: shape (N,), higher for what is more acceptable.
        cuts: numbers of pairs. A resample of other size is cut at the same share of its pairs.
        samples: resamples of targets.
    """
    accepted, conceivable = pairs.accepted, pairs.conceivable
    by_target = np.split(np.arange(len(pairs)), np.flatnonzero(np.diff(pairs.target)) + 1)
    rng = np.random.default_rng(1)
    rows = [_measures(accepted, conceivable, score, cuts, len(pairs))]
    for _ in range(samples):
        chosen = np.concatenate([by_target[index] for index in rng.integers(len(by_target), size=len(by_target))])
        rows.append(_measures(accepted[chosen], conceivable[chosen], score[chosen], cuts, len(pairs)))
    table = np.array(rows)
    low, high = np.nanpercentile(table[1:], [2.5, 97.5], axis=0) if samples else (table[0], table[0])
    found = [Interval(*map(float, each)) for each in zip(table[0], low, high, strict=True)]
    middle = 2 + len(cuts)
    return RankingJudgement(
        found[0], found[1], dict(zip(cuts, found[2:middle], strict=True)), dict(zip(cuts, found[middle:], strict=True))
    )


def _measures(
    accepted: NDArray[np.bool_],
    conceivable: NDArray[np.bool_],
    score: NDArray[np.float64],
    cuts: Sequence[int],
    size: int,
) -> list[float]:
    order = np.argsort(-score, kind="stable")
    tops = [max(1, round(cut * len(score) / size)) for cut in cuts]
    both = 0 < accepted.sum() < len(accepted)
    return [
        float(average_precision_score(accepted, score)) if both else float("nan"),
        float(roc_auc_score(accepted, score)) if both else float("nan"),
        *(float(accepted[order[:top]].mean()) for top in tops),
        *(float(conceivable[order[:top]].mean()) for top in tops),
    ]


def above(pairs: JudgedPairs, score: NDArray[np.float64], threshold: float) -> tuple[int, Ratio, Ratio]:
    """What a threshold excuses: how many pairs, the accepted share of them, and the recall of accepted ones."""
    chosen = score >= threshold
    count = len(pairs.places)
    total, right, all_right = (
        np.bincount(pairs.target[each], minlength=count).astype(np.float64)
        for each in (chosen, chosen & pairs.accepted, pairs.accepted)
    )
    return int(chosen.sum()), Ratio(right, total), Ratio(right, all_right)
