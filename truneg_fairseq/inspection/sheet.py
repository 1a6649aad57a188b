"""A sheet of mistakes for a person to mark: who accepted them is in another file until the marks are there.

Cases come from several sources (tables, a detector) that take them for false negatives, and from the mistakes that none
of them does, all shuffled, so that the marker cannot tell one from another. No torch here.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy import stats

from ..errors import TrueNegError
from ..files import replacing_text
from .measurements import Example

NO_SOURCE = "none of the sources"
YES, NO = ("yes", "y", "1", "x"), ("no", "n", "0")
_COLUMNS = ("case", "sentence", "original", "prediction", "acceptable")


@dataclass(frozen=True)
class Case:
    """A mistake of a model."""

    example: Example  # in its sentence
    # the names of those that take it for a false negative; of a drawn case, of those it is drawn for
    sources: frozenset[str]


@dataclass(frozen=True)
class Precision:
    """What people say of a source's cases."""

    source: str  # its name
    marked: int  # how many of its cases are marked
    accepted: int  # how many of those are acceptable

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval of the share that is accepted, in [0, 1]; all of it without a mark."""
        if not self.marked:
            return 0.0, 1.0
        found = stats.binomtest(self.accepted, self.marked).proportion_ci(confidence, method="wilson")
        return float(found.low), float(found.high)

    def record(self) -> dict[str, Any]:
        """JSON-able."""
        return {"source": self.source, "marked": self.marked, "accepted": self.accepted, "interval": self.interval()}


def draw(cases: Sequence[Case], sources: Sequence[str], count: int, seed: int = 1) -> list[Case]:
    """Some cases of every source and of none, shuffled.

    Each source gets the first of its cases in one random order of all. So they are a random sample of its cases, and
    sources that accept the same mistakes share cases. A case that is returned names only the sources that it is drawn
    for: counted for another one that accepts it too, it would bias that one's precision.

    Args:
        cases: in any order.
        sources: the names.
        count: of each; all where there are fewer.
        seed: of the order.
    """
    rng = random.Random(seed)
    order = rng.sample(cases, len(cases))
    drawn_for: dict[int, set[str]] = defaultdict(set)
    for source in sources:
        for index in [index for index, case in enumerate(order) if source in case.sources][:count]:
            drawn_for[index].add(source)
    for index in [index for index, case in enumerate(order) if not case.sources][:count]:
        drawn_for[index] = set()
    drawn = [replace(order[index], sources=frozenset(names)) for index, names in drawn_for.items()]
    rng.shuffle(drawn)  # a rare source's cases are late in the order of all
    return drawn


def key_path(sheet: Path) -> Path:
    """Where the sources of a sheet's cases are kept: ``FILE.key.csv`` beside ``FILE.csv``."""
    return sheet.with_suffix(".key.csv")


def write_sheet(path: Path, cases: Sequence[Case]) -> None:
    """Writes the sheet and its key."""
    with replacing_text(key_path(path)) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("case", "sources"))
        writer.writerows((number, ";".join(sorted(case.sources))) for number, case in enumerate(cases, start=1))
    with replacing_text(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for number, case in enumerate(cases, start=1):
            one = case.example
            sentence = " ".join(part for part in (one.before, f"[{one.gold}]", one.after) if part)
            writer.writerow([number, *map(_harmless, (sentence, one.gold, one.prediction)), ""])


def _harmless(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def read_precision(path: Path) -> list[Precision]:
    """The precision of each source of a marked sheet, and of the cases of none."""
    sources = {row["case"]: set(filter(None, row["sources"].split(";"))) for row in _rows(key_path(path), ("sources",))}
    marks: dict[str, bool] = {}
    for number, row in enumerate(_rows(path, ("acceptable",)), start=2):
        mark = row["acceptable"].strip().lower()
        if row["case"] not in sources:
            raise TrueNegError(f"{path}: line {number}: case {row['case']!r} is not in {key_path(path)}")
        if mark and mark not in YES + NO:
            raise TrueNegError(f"{path}: line {number}: acceptable is {mark!r}; expected yes or no, or nothing")
        if mark:
            marks[row["case"]] = mark in YES
    if not marks:
        raise TrueNegError(f"{path}: nothing is marked; expected yes or no in the column 'acceptable'")
    names = [*sorted(set().union(*sources.values())), NO_SOURCE]
    return [_precision(name, sources, marks) for name in names]


def _precision(name: str, sources: Mapping[str, set[str]], marks: Mapping[str, bool]) -> Precision:
    of_it = [mark for case, mark in marks.items() if name in sources[case] or (name == NO_SOURCE and not sources[case])]
    return Precision(name, len(of_it), sum(of_it))


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, restval="")
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TrueNegError(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); expected a file of "
            "'truneg inspect --sheet'"
        ) from None
    missing = [name for name in ("case", *needed) if name not in (reader.fieldnames or ())]
    if missing:
        raise TrueNegError(f"{path}: has no column {missing[0]!r}; expected a file of 'truneg inspect --sheet'")
    return rows
