"""Scores as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..results.intervals import Interval, Ratio
from ..results.paired import WITHIN_NOISE, Column, difference_table, value_table
from ..results.tables import Table, terminal
from ..synonyms.table import SynonymTable
from ..vocabulary import Vocabulary
from .acceptance import above, judge_scores, judge_table
from .judged_pairs import JudgedPairs
from .lexsub import CANDIDATES, METRICS, MODES, PARTS, Scores
from .lexsub_controls import LOOK_UP_WEIGHT
from .swords import Lemmatizer

NOTES = (
    "Percent. Fa, Fc: F^10 of accepted and of conceivable words, lenient and strict. p(acc.): the probability that all",
    "forms of accepted words get. (targets): how many each metric is of. Ceiling: the best words of the vocabulary.",
    "Chance: random orders. Cosine: of the input embedding with that of the target, without the sentence.",
    f"[..]: 95 % bootstrap over targets, of differences paired by target. {WITHIN_NOISE} the interval holds 0.",
)
NOTES_OF_TABLES = (
    f"With the table: p + {LOOK_UP_WEIGHT:g} q of the first model, q what --target-smoothing synonyms teaches, looked",
    "up without training. Listed: a table has the word for the target, in any form; targets with listed candidates",
    "have rows of their own.",
)
_TITLES = {"all": "all candidates", "people": "the people's candidates alone"}
_COLUMNS = tuple(Column(name, title) for name, title in METRICS.items())
_APART = ("recall_at_10", "gap", "precision_at_1")


def tables(scores: Mapping[str, Scores], listed: NDArray[np.bool_] | None = None) -> list[Table]:
    """The metrics of models and controls by name, and their differences to the first.

    With ``listed``, shape (T,), the targets with listed candidates and the others have rows of their own.
    """
    made = []
    for mode in MODES:
        for candidates in CANDIDATES:
            found = {name: each for name, score in scores.items() if (each := score.of(mode, candidates)) is not None}
            where = f"target {mode}, {_TITLES[candidates]}"
            made.append(value_table(where.capitalize(), found, _COLUMNS, items="targets"))
            apart = {} if listed is None else {name: _apart(each, listed) for name, each in found.items()}
            if listed is not None:
                title = f"What tables list, apart: {where}"
                made.append(value_table(title, apart, _apart_columns(), items="targets"))
            # What does not depend on the mode cannot be compared with.
            compared = [name for name, score in scores.items() if (mode, candidates) in score.metrics]
            if len(compared) > 1:
                title = f"Differences to {compared[0]}: {where}"
                made.append(difference_table(title, {name: found[name] for name in compared}, _COLUMNS))
                if listed is not None:
                    title = f"Differences to {compared[0]}, what tables list, apart: {where}"
                    chosen = {name: apart[name] for name in compared}
                    made.append(difference_table(title, chosen, _apart_columns()))
    return made


def _apart(metrics: Mapping[str, Ratio], listed: NDArray[np.bool_]) -> dict[str, Ratio]:
    found = {name: metrics[name] for name in PARTS}
    for name in _APART:
        found |= {f"{name} listed": metrics[name].of(listed), f"{name} others": metrics[name].of(~listed)}
    return found


def _apart_columns() -> list[Column]:
    columns = [Column(name, title) for name, title in PARTS.items()]
    for name in _APART:
        columns += [
            Column(f"{name} listed", f"{METRICS[name]} if listed"),
            Column(f"{name} others", f"{METRICS[name]} if not"),
        ]
    return columns


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
