"""The table and the forest plot of docs/results.md, from the published lines of this folder.

    python docs/results/summary.py            # prints the table as Markdown, writes summary.svg
    python docs/results/summary.py --table    # prints the table alone
    python docs/results/summary.py --check    # exits with 1 if results.md has another table

MiniLM continued on 97 English novels, 250 updates of 24 x 64 tokens, seeds 1 to 5 of each arm (GLUE: the seeds that
were fine-tuned). A cell is the difference to plain masked LM, paired by seed, with its 95 % interval over seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from truneg_fairseq.report.charts import Bar, interval_chart, stacked
from truneg_fairseq.results.intervals import Interval, seed_interval
from truneg_fairseq.results.result import Result, read_results

HERE = Path(__file__).parent
PAGE = HERE.parent / "results.md"
SEEDS = range(1, 6)
FILES = ("alternatives.jsonl", "novels.jsonl", "novels_others.jsonl")  # the first one counts where two have a line
BASELINE = "baseline"
ARMS = {  # name in the lines: name in the table
    "uniform": "label smoothing, 0.1",
    "hc": "HC (paper)",
    "sr-word": "SR-word (paper)",
    "sr-sent": "SR-sent (paper)",
    "synonyms-inflected": "soft targets: synonyms",
    "corpus": "soft targets: corpus counts",
    "embedding": "soft targets: nearest words",
    "corpus-embedding": "soft targets: corpus + nearest",
}
GLUE = (("MRPC", "accuracy"), ("RTE", "accuracy"), ("SST-2", "accuracy"), ("STS-B", "spearman"))
# Title, (task, metric) that are averaged, factor, digits, whether less is better.
Column = tuple[str, tuple[tuple[str, str], ...], float, int, bool]
COLUMNS: tuple[Column, ...] = (
    ("held-out loss, bits ↓", (("held-out text", "bits"),), 1.0, 3, True),
    ("people's next words, bits ↓", (("cloze", "bits"),), 1.0, 3, True),
    ("lexical substitution, R@10 ↑", (("lexsub kept (people)", "recall_at_10"),), 100.0, 2, False),
    ("calibration error, points ↓", (("held-out text", "ece"),), 100.0, 2, True),
    ("GLUE, 4 tasks ↑", GLUE, 100.0, 2, False),
)


def values(results: Sequence[Result], arm: str, tasks: Sequence[tuple[str, str]]) -> dict[int, float]:
    """The mean over tasks by seed, for the seeds that have all of them."""
    found: dict[int, list[float]] = {}
    for task, metric in tasks:
        by_seed = {each.seed: each.metrics[metric] for each in results if (each.model, each.task) == (arm, task)}
        for seed, value in by_seed.items():
            found.setdefault(seed, []).append(value)
    return {
        seed: float(np.mean(several)) for seed, several in found.items() if len(several) == len(tasks) and seed in SEEDS
    }


def interval(results: Sequence[Result], arm: str, column: Column) -> tuple[Interval | None, int]:
    """The difference to the baseline, in the column's unit, and how many seeds it is of."""
    _, tasks, factor, _, _ = column
    ours, theirs = values(results, arm, tasks), values(results, BASELINE, tasks)
    paired = sorted(ours.keys() & theirs.keys())
    if len(paired) < 3:
        return None, len(paired)
    return seed_interval(factor * np.array([[ours[seed] - theirs[seed]] for seed in paired])), len(paired)


def cell(found: Interval | None, seeds: int, column: Column) -> str:
    _, _, _, digits, less = column
    if found is None:
        return "not measured"
    text = f"{found.mean:+.{digits}f} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"
    if not found.contains_zero:
        text = f"**{text}** {'better' if (found.mean < 0) == less else 'worse'}"
    return text if seeds == len(SEEDS) else f"{text} ({seeds} seeds)"


def table(results: Sequence[Result]) -> list[str]:
    head = ["difference to plain masked LM", *(column[0] for column in COLUMNS)]
    rows = [head, ["---", *["---:"] * len(COLUMNS)]]
    plain = []
    for _, tasks, factor, digits, _ in COLUMNS:
        mean = factor * float(np.mean(list(values(results, BASELINE, tasks).values())))
        plain.append(f"{mean:.{digits}f}")
    rows.append(["(plain masked LM itself)", *plain])
    for arm, name in ARMS.items():
        rows.append([name, *(cell(*interval(results, arm, column), column) for column in COLUMNS)])
    return [f"| {' | '.join(row)} |" for row in rows]


def main() -> None:
    results: dict[tuple[str, str, int], Result] = {}
    for file in FILES:
        for each in read_results([HERE / file]):
            results.setdefault(each.key, each)
    lines = table(list(results.values()))
    if "--check" in sys.argv[1:]:
        sys.exit("\n".join(lines) not in PAGE.read_text(encoding="utf-8"))
    print("\n".join(lines))
    if "--table" in sys.argv[1:]:
        return
    charts = []
    for column in COLUMNS[:3]:
        found = {name: interval(list(results.values()), arm, column)[0] for arm, name in ARMS.items()}
        bars = [Bar(name, each.mean, (each.low, each.high)) for name, each in found.items() if each is not None]
        better = column[0].replace(" ↓", " (less is better)").replace(" ↑", " (more is better)")
        charts.append(interval_chart(column[0], bars, x_title=f"difference in {better}"))
    picture = stacked("Differences to plain masked LM, 95 % intervals over five seeds", charts).file()
    (HERE / "summary.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
