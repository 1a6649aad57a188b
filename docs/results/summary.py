"""The tables of docs/results.md and of pages of this folder, and the picture of results.md, from the published lines.

    python docs/results/summary.py             # writes the tables into their pages, and summary.svg
    python docs/results/summary.py --check     # exits with 1 if a page has another table
    python docs/results/summary.py --terminal  # prints the first table, without intervals, at most 100 columns wide

A cell is the difference to the table's baseline, paired by seed, with a 95 % interval over seeds (Student's t) that is
its own. The cell is bold, and called better or worse, only if the interval that holds for all rows of its column at
once (Bonferroni) leaves out 0 too. A cell of fewer seeds than most says how many it has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from truneg_fairseq.results.charts import Bar, interval_chart, stacked
from truneg_fairseq.results.intervals import CONFIDENCE, Interval, seed_interval
from truneg_fairseq.results.result import Result, read_results

HERE = Path(__file__).parent
BEGIN, END = "<!-- made by summary.py: {} -->", "<!-- end -->"
ENOUGH_SEEDS = 3
NOT_MEASURED = "not measured"


class Column(NamedTuple):
    title: str
    files: tuple[str, ...]  # the first one counts where two have a line
    tasks: tuple[tuple[str, str], ...]  # (task, metric), whose values are averaged
    factor: float = 100.0
    digits: int = 2
    less_is_better: bool = False

    def values(self, arm: str, seeds: range) -> dict[int, float]:
        """The value of each seed that has all tasks."""
        found: dict[int, list[float]] = {}
        for task, metric in self.tasks:
            by_seed: dict[int, float] = {}
            for each in (each for file in self.files for each in published(file)):
                if (each.model, each.task) == (arm, task) and each.seed in seeds:
                    by_seed.setdefault(each.seed, each.metrics[metric])
            for seed, value in by_seed.items():
                found.setdefault(seed, []).append(self.factor * value)
        return {seed: float(np.mean(several)) for seed, several in found.items() if len(several) == len(self.tasks)}


class Table(NamedTuple):
    name: str
    page: Path
    arms: Mapping[str, str]  # name in the lines: name in the table
    columns: tuple[Column, ...]
    seeds: range = range(1, 6)
    baseline: str = "baseline"

    def differences(self, arm: str, column: Column) -> NDArray[np.float64]:
        """To the baseline, in the column's unit, shape (seeds that both have,)."""
        ours, theirs = column.values(arm, self.seeds), column.values(self.baseline, self.seeds)
        return np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])

    def interval(self, arm: str, column: Column) -> Interval | None:
        found = self.differences(arm, column)
        return seed_interval(found) if len(found) >= ENOUGH_SEEDS else None

    def verdict(self, arm: str, column: Column) -> str:
        """better, worse, or nothing where the difference may be chance."""
        measured = [other for other in self.arms if other != self.baseline and self.interval(other, column)]
        of_all = seed_interval(self.differences(arm, column), confidence=1 - (1 - CONFIDENCE) / len(measured))
        if of_all is None or of_all.contains_zero:
            return ""
        return "better" if (of_all.mean < 0) == column.less_is_better else "worse"

    def cell(self, arm: str, column: Column, intervals: bool = True) -> str:
        found, seeds = self.interval(arm, column), len(self.differences(arm, column))
        if found is None:
            return NOT_MEASURED
        verdict, text = self.verdict(arm, column), f"{found.mean:+.{column.digits}f}"
        if not intervals:
            return f"{text} {verdict}".rstrip()
        text += f" [{found.low:+.{column.digits}f}, {found.high:+.{column.digits}f}]"
        text = f"**{text}** {verdict}" if verdict else text
        return text if seeds == len(self.seeds) else f"{text} ({seeds} seeds)"

    def rows(self, intervals: bool = True) -> list[list[str]]:
        """The baseline's own values, then a row for each arm."""
        own = [column.values(self.baseline, self.seeds).values() for column in self.columns]
        means = [f"{np.mean(list(values)):.{column.digits}f}" for column, values in zip(self.columns, own, strict=True)]
        first = [f"({self.arms[self.baseline]} itself)", *means]
        others = [arm for arm in self.arms if arm != self.baseline]
        return [
            first,
            *([self.arms[arm], *(self.cell(arm, each, intervals) for each in self.columns)] for arm in others),
        ]

    def markdown(self) -> str:
        head = [f"difference to {self.arms[self.baseline]}", *(column.title for column in self.columns)]
        rows = [head, ["---", *["---:"] * len(self.columns)], *self.rows()]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@cache
def published(file: str) -> list[Result]:
    return read_results([HERE / file])


ALTERNATIVES = ("alternatives.jsonl", "novels.jsonl", "novels_others.jsonl")
NOVELS = ("novels.jsonl", "novels_others.jsonl")
NOVELS_TEST = ("novels_test.jsonl", "novels_others_test.jsonl")
SUBSTITUTES = (("lexsub kept (people)", "recall_at_10"),)
LOSS, ERROR = (("held-out text", "bits"),), (("held-out text", "ece"),)
NEXT_WORDS = (("cloze", "bits"),)
GLUE = (("MRPC", "accuracy"), ("RTE", "accuracy"), ("SST-2", "accuracy"), ("STS-B", "spearman"))
PLAIN = {"baseline": "plain masked LM"}
SUMMARY = Table(
    "results",
    HERE.parent / "results.md",
    PLAIN
    | {
        "uniform": "label smoothing, 0.1",
        "hc": "HC (paper)",
        "sr-word": "SR-word (paper)",
        "sr-sent": "SR-sent (paper)",
        "synonyms-inflected": "soft targets: synonyms",
        "corpus": "soft targets: corpus counts",
        "embedding": "soft targets: nearest words",
        "corpus-embedding": "soft targets: corpus + nearest",
    },
    (
        Column("held-out loss, bits ↓", ALTERNATIVES, LOSS, 1.0, 3, True),
        Column("people's next words, bits ↓", ALTERNATIVES, NEXT_WORDS, 1.0, 3, True),
        Column("lexical substitution, R@10 ↑", ALTERNATIVES, SUBSTITUTES),
        Column("calibration error, points ↓", ALTERNATIVES, ERROR, less_is_better=True),
        Column("GLUE, 4 tasks ↑", ALTERNATIVES, GLUE),
    ),
)


def alternatives(name: str, arms: Mapping[str, str], file: str, substitutes: bool = False) -> Table:
    middle = (Column("lexical substitution, R@10 ↑", (file,), SUBSTITUTES),) if substitutes else ()
    columns = (
        Column("people's next words, bits ↓", (file,), NEXT_WORDS, 1.0, 3, True),
        *middle,
        Column("held-out novels, bits ↓", (file,), LOSS, 1.0, 3, True),
        Column("calibration error, points ↓", (file,), ERROR, less_is_better=True),
        Column("probability of people's other words, % ↑", (file,), (("cloze", "others"),)),
    )
    return Table(name, HERE / "alternatives.md", PLAIN | arms, columns)


SOFT = {"uniform": "label smoothing", "embedding": "nearest", "corpus-embedding": "corpus + nearest"}
OTHERS = {
    "corpus": "corpus",
    "teacher": "a teacher",
    "sr-word-expected": "SR-word without the argmax",
    "truncation": "loss truncation (control)",
}
DETECTORS = {
    "hc": "HC",
    "hc-inflected": "HC, inflected table",
    "hc-embedding": "HC, detector `embedding`",
    "hc-graded": "HC, `embedding` as a weight",
    "hc-context": "HC, detector `context`",
    "sr-word": "SR-word",
    "sr-sent": "SR-sent",
    "synonyms": "synonyms of WordNet",
    "synonyms-flat": "synonyms of WordNet, all alike",
    "synonyms-inflected": "inflected synonyms",
    "synonyms-inflected-sr-word": "inflected synonyms and SR-word",
    "uniform": "label smoothing (control)",
    "self": "the model's own distribution (control)",
    "temperature": "softmax temperature 1.5 (control)",
}


def fourteen(name: str, page: str, development: tuple[str, ...], test: tuple[str, ...], seeds: range) -> Table:
    columns = (
        Column("R@10, SWORDS test ↑", test, SUBSTITUTES),
        Column("R@10, SWORDS development ↑", development, SUBSTITUTES),
        Column("held-out loss, bits ↓", development, LOSS, 1.0, 3, True),
        Column("calibration error, points ↓", development, ERROR, less_is_better=True),
    )
    return Table(name, HERE / page, PLAIN | DETECTORS, columns, seeds)


TABLES = (
    SUMMARY,
    alternatives("all of the text", SOFT | OTHERS, "alternatives.jsonl", substitutes=True),
    alternatives("10 % of the text", {"corpus-embedding": "corpus + nearest"}, "alternatives_10_percent.jsonl"),
    alternatives("1 % of the text", SOFT, "alternatives_1_percent.jsonl"),
    fourteen("novels", "novels.md", NOVELS, NOVELS_TEST, range(1, 9)),
    Table(
        "new seeds",
        HERE / "novels.md",
        {"uniform": "label smoothing", "synonyms-inflected": "inflected synonyms"},
        (
            Column("R@10 ↑", ("novels_new_test.jsonl",), SUBSTITUTES),
            Column("GAP ↑", ("novels_new_test.jsonl",), (("lexsub kept (people)", "gap"),)),
            Column("R@10, target masked ↑", ("novels_new_test.jsonl",), (("lexsub masked (people)", "recall_at_10"),)),
        ),
        range(9, 25),
        "uniform",
    ),
    Table(
        "fine-tuning",
        HERE / "novels.md",
        PLAIN | {"hc": "HC", "sr-word": "SR-word", "synonyms-inflected": "inflected synonyms"},
        (
            *(Column(f"{task} ↑", NOVELS, ((task, metric),)) for task, metric in GLUE if task != "RTE"),
            Column("SQuAD, F1 ↑", NOVELS, (("SQuAD", "f1"),)),
            *(
                Column(f"{attack}, drop of F1 ↓", NOVELS, ((attack, "drop_f1"),), less_is_better=True)
                for attack in ("AddOneSent", "AddSentDiverse", "SwapSynWordNet")
            ),
        ),
    ),
    fourteen(
        "WikiText-2",
        "two_cores.md",
        ("two_cores.jsonl", "two_best.jsonl"),
        ("two_cores_test.jsonl", "two_best_test.jsonl"),
        range(1, 6),
    ),
    fourteen("eight new seeds", "two_cores.md", ("new_seeds.jsonl",), ("new_seeds_test.jsonl",), range(6, 14))._replace(
        arms=PLAIN | {"synonyms-inflected": "inflected synonyms", "uniform": "label smoothing"}
    ),
    Table(
        "CoLA",
        HERE / "two_cores.md",
        PLAIN | {"hc": "HC", "sr-word": "SR-word", "synonyms": "synonyms of WordNet"},
        (Column("CoLA, Matthews ↑", ("two_cores.jsonl",), (("CoLA", "matthews"),)),),
    ),
)


def page_with(table: Table) -> str:
    """The table's page as it has to be."""
    before, begin, rest = table.page.read_text(encoding="utf-8").partition(BEGIN.format(table.name))
    assert begin, f"{table.page}: has no place for the table {table.name!r}"
    return f"{before}{begin}\n\n{table.markdown()}\n\n{END}{rest.partition(END)[2]}"


def picture() -> str:
    charts = []
    for column in SUMMARY.columns[:3]:
        found = {name: SUMMARY.interval(arm, column) for arm, name in SUMMARY.arms.items() if arm != "baseline"}
        bars = [Bar(name, each.mean, (each.low, each.high)) for name, each in found.items() if each is not None]
        better = column.title.replace(" ↓", " (less is better)").replace(" ↑", " (more is better)")
        charts.append(interval_chart(column.title, bars, x_title=f"difference in {better}"))
    return stacked("Differences to plain masked LM, 95 % intervals over five seeds", charts).file()


def terminal() -> str:
    heads = ("held-out\nloss", "people's\nnext words", "substitu-\ntion, R@10", "calibration\nerror", "GLUE")
    rows = [["-" if cell == NOT_MEASURED else cell for cell in row] for row in SUMMARY.rows(intervals=False)]
    return tabulate(rows, ["", *heads], disable_numparse=True, colalign=["left", *["right"] * len(heads)])


def main() -> None:
    if "--terminal" in sys.argv[1:]:
        print(terminal())
        return
    if "--check" in sys.argv[1:]:
        wrong = [table.name for table in TABLES if page_with(table) != table.page.read_text(encoding="utf-8")]
        sys.exit(f"other tables in the pages than in the lines: {', '.join(wrong)}" if wrong else 0)
    for table in TABLES:
        table.page.write_text(page_with(table), encoding="utf-8")
    (HERE / "summary.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
