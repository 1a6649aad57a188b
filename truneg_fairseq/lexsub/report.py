"""Scores as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..comparison.statistics import Interval
from ..comparison.tables import WITHIN_NOISE, Table, terminal
from ..synonyms.table import SynonymTable
from ..vocabulary import Vocabulary
from .evaluation import CANDIDATES, METRICS, MODES, Scores
from .judge import above, judge_scores, judge_table
from .metrics import Ratio
from .pairs import JudgedPairs
from .swords import Lemmatizer

CEILING = "ceiling"
NOTES = (
    "Percent. Fa, Fc: F^10 of accepted and of conceivable words, lenient and strict. p(acc.): the probability that all",
    "forms of accepted words get. R@10: mean over the targets with an accepted candidate. Ceiling: the best words of",
    "the vocabulary. [..]: 95 % bootstrap over targets, of differences paired by target. "
    f"{WITHIN_NOISE} the interval holds 0.",
)
_TITLES = {"all": "all candidates", "people": "the people's candidates alone"}


def tables(scores: Mapping[str, Scores], ceiling: Scores) -> list[Table]:
    """The metrics of models by name, and where there are several their differences to the first."""
    made = []
    for mode in MODES:
        for candidates in CANDIDATES:
            rows = [(name, *_row(found, mode, candidates)) for name, found in scores.items()]
            rows.append((CEILING, *_row(ceiling, "ceiling", candidates)))
            made.append(Table(f"Target {mode}, {_TITLES[candidates]}", ("", *METRICS.values()), tuple(rows)))
    if len(scores) > 1:
        made += [_differences(scores, mode, candidates) for mode in MODES for candidates in CANDIDATES]
    return made


def _row(scores: Scores, mode: str, candidates: str) -> list[str]:
    metrics = scores.metrics[mode, candidates]
    return [f"{100 * metrics[name].value:.2f}" for name in METRICS]


def _differences(scores: Mapping[str, Scores], mode: str, candidates: str) -> Table:
    (first, baseline), *others = scores.items()
    rows = [
        (
            title,
            *(
                _described(found.metrics[mode, candidates][name].interval(baseline.metrics[mode, candidates][name]))
                for _, found in others
            ),
        )
        for name, title in METRICS.items()
    ]
    title = f"Differences to {first}: target {mode}, {_TITLES[candidates]}"
    return Table(title, ("", *(name for name, _ in others)), tuple(rows))


def _described(interval: Interval) -> str:
    """A difference with its interval, in percent."""
    mark = f" {WITHIN_NOISE}" if interval.holds_zero else ""
    return f"{100 * interval.mean:+.2f} [{100 * interval.low:+.2f}, {100 * interval.high:+.2f}]{mark}"


def table_judgements(
    named: Sequence[tuple[str, SynonymTable]], pairs: JudgedPairs, vocabulary: Vocabulary
) -> list[str]:
    """What people say of tables' pairs, and of the judged candidates that tables list."""
    lemmatizer = Lemmatizer()
    found = [(name, judge_table(table, pairs, vocabulary, lemmatizer)) for name, table in named]
    listed = [
        (name, f"{each.pairs:,}", *map(_percent, (each.own, each.unjudged, each.accepted, each.conceivable)))
        for name, each in found
    ]
    judged = [(name, *map(_percent, (each.judged, each.recall)), f"{each.listed:,}") for name, each in found]
    head = ("", "pairs", "own lemma", "unjudged", "accepted", "conceivable")
    return [
        *terminal(Table("Pairs of tables, in %", head, tuple(listed))),
        "",
        *terminal(Table("Judged pairs of tables, in %", ("", "accepted", "recall", "candidates"), tuple(judged))),
    ]


def rankings(scores: Mapping[str, NDArray[np.float64]], pairs: JudgedPairs, cut: int) -> list[str]:
    """How well detectors rank the pairs: at all, and at the top, of ``cut`` pairs and of half as many."""
    cuts = (max(1, cut), max(1, cut // 2))
    found = {name: judge_scores(pairs, score, cuts) for name, score in scores.items()}
    whole = [(name, *map(_interval, (each.average_precision, each.area))) for name, each in found.items()]
    tops = [
        (name, *(_interval(by_cut[cut]) for by_cut in (each.precision, each.conceivable) for cut in cuts))
        for name, each in found.items()
    ]
    head = ("", *(f"{what} at {cut:,}" for what in ("acc.", "conc.") for cut in cuts))
    return [
        *terminal(Table("Detectors, in %", ("", "AP", "AUC"), tuple(whole))),
        "",
        *terminal(Table("Accepted and conceivable of the highest scores, in %", head, tuple(tops))),
    ]


def thresholds(scores: Mapping[str, NDArray[np.float64]], pairs: JudgedPairs, chosen: Sequence[float]) -> list[str]:
    """What detectors accept at some probabilities."""
    rows = []
    for name, score in scores.items():
        for threshold in chosen:
            count, precision, recall = above(pairs, score, threshold)
            rows.append((f"{name} >= {threshold:g}", f"{count:,}", _percent(precision), _percent(recall)))
    return terminal(Table("Thresholds, in %", ("", "pairs", "accepted", "recall"), tuple(rows))) if rows else []


def _percent(ratio: Ratio) -> str:
    return _interval(ratio.interval())


def _interval(interval: Interval) -> str:
    return f"{100 * interval.mean:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
