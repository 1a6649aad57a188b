"""The lines and the tables of little_text.md.

    python docs/results/little_text.py little_text.jsonl little lookup.jsonl    # a folder of truneg experiment, results
    python docs/results/little_text.py little_text_low.jsonl low                # the second experiment
    python docs/results/little_text.py little_text_captions.jsonl captions      # the third
    python docs/results/little_text.py little_text_overfit.jsonl overfit        # the fourth
    python docs/results/little_text.py little_text.jsonl                        # the tables, of the published lines

With a folder they write the lines, with the losses on ``valid`` that chose the epoch; all of them write the tables
into the page. Differences are paired by seed. With three seeds and more their intervals are those of ``truneg compare
--bonferroni``; with fewer they are over the items alone, and marked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from truneg_fairseq.fairseq_runs.folder import read_series
from truneg_fairseq.results.comparison import ENOUGH_SEEDS, Comparison, Part, Quantity, Summary
from truneg_fairseq.results.result import BITS, HELD_OUT, Metric, Result, read_results

HERE = Path(__file__).parent
PAGE = HERE / "little_text.md"
BEGIN, END = "<!-- made by little_text.py of {} -->", "<!-- end -->"
VALID = "valid after epoch {}"
LOSS = Metric("bits", False, BITS)
EARLY = f"{HELD_OUT} after 33.33 %"


class Length(NamedTuple):
    """How long the models of a file were trained."""

    valid: dict[int, str]  # the updates after which the table shows the loss on valid, with the epochs they are
    test: tuple[str, str]  # the epochs after which test was measured
    more: tuple[tuple[str, str, str], ...] = ()  # other columns
    rivals: tuple[str, ...] = ("baseline", "uniform", "shuffled")  # what the arms are compared with

    @property
    def columns(self) -> tuple[tuple[str, str, str], ...]:
        """Title, task and metric."""
        early, last = self.test
        return (
            (f"`test` after epoch {early}, bits ↓", EARLY, BITS),
            (f"`test` after epoch {last}, bits ↓", HELD_OUT, BITS),
            ("people's next words, bits ↓", "cloze", BITS),
            ("self-paced reading, gain ↑", "reading, self-paced", "gain"),
            ("first-pass reading, gain ↑", "reading, first pass", "gain"),
            *self.more,
        )


PEOPLE_AND_GRAMMAR = (
    ("SWORDS, R@10 ↑", "lexsub kept (people)", "recall_at_10"),
    ("Zorro, accuracy ↑", "Zorro", "accuracy"),
)
SIX_EPOCHS = Length({18: "2", 36: "4", 54: "6"}, ("2", "6"))
LENGTHS = {
    "little_text.jsonl": SIX_EPOCHS._replace(rivals=("baseline",)),  # which decides nothing
    "little_text_captions.jsonl": Length({20: "2", 40: "4", 54: "5.4"}, ("1.8", "5.4"), PEOPLE_AND_GRAMMAR),
    "little_text_overfit.jsonl": Length({18: "2", 90: "10", 180: "20"}, ("6.7", "20")),
}
COMPARED = (("baseline", "plain masked LM"), ("uniform", "label smoothing"), ("shuffled", "counts of no place"))


def published(result: Result) -> Result:
    """Without the places of files; the scores of items where an interval over them is shown."""
    settings = {name: value for name, value in result.settings.items() if name in ("masked", "sequences", "updates")}
    kept = {BITS} if result.task.startswith((HELD_OUT, "cloze")) and result.task != "cloze corpus word" else set()
    parts = [
        {name: [round(value, 3) for value in values] for name, values in each.items() if name in kept}
        for each in (result.examples, result.denominators)
    ]
    return replace(result, examples=parts[0], denominators=parts[1], example_ids=[], settings=settings)


def on_valid(folder: Path, length: Length) -> Iterator[Result]:
    """The losses that choose the epoch."""
    for run in sorted(folder.glob("runs/*/seed-*/train")):
        found = read_series(run).get(("valid", "loss"), {})
        for updates, epoch in length.valid.items():
            if updates in found and (run / "model.pt").exists():
                yield Result(
                    model=run.parent.parent.name,
                    task=VALID.format(epoch),
                    seed=int(run.parent.name.removeprefix("seed-")),
                    metrics={BITS: found[updates]},
                    shown={BITS: LOSS},
                )


def quantity(results: Sequence[Result], task: str, metric: str) -> Quantity | None:
    shown = [each.shown[metric] for each in results if each.task == task and metric in each.shown]
    return Quantity(metric, (Part(task, metric),), shown[0]) if shown else None


def difference(found: Summary | None) -> str:
    if found is None or found.differences is None or found.difference is None:
        return "not measured"
    if found.paired_seeds >= ENOUGH_SEEDS:
        assert found.interval is not None
        low, high, mark = found.interval.low, found.interval.high, ""
    elif found.differences.ndim == 2:
        items = found.differences.mean(axis=0)
        reach = 1.96 * float(items.std(ddof=1)) / len(items) ** 0.5
        low, high, mark = found.difference - reach, found.difference + reach, " †"
    else:
        return f"{found.difference:+.3f} †"
    text = f"{found.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    return (f"**{text}**" if low > 0 or high < 0 else text) + mark


def mean(results: Sequence[Result], model: str, task: str, metric: str, seeds: Sequence[int]) -> str:
    chosen = [each for each in results if (each.model, each.task) == (model, task) and each.seed in seeds]
    found = [each.metrics[metric] for each in chosen]
    return f"{np.mean(found):.3f}" if found else ""


def tables(results: Sequence[Result], length: Length) -> list[str]:
    columns, epochs = length.columns, list(length.valid.values())
    arms = list(dict.fromkeys(each.model for each in results))
    lines = [f"| | seeds | `valid` after epochs {', '.join(epochs)} | {' | '.join(name for name, *_ in columns)} |"]
    lines.append("|---|---|---|" + "---:|" * len(columns))
    for arm in arms:
        seeds = sorted({each.seed for each in results if (each.model, each.task) == (arm, HELD_OUT)})
        valid = ", ".join(filter(None, (mean(results, arm, VALID.format(epoch), BITS, seeds) for epoch in epochs)))
        values = [mean(results, arm, task, metric, seeds) for _, task, metric in columns]
        shown = ", ".join(map(str, seeds)) if valid else ""
        lines.append(f"| `{arm}` | {shown} | {valid} | {' | '.join(values)} |")
    trained = [
        arm for arm in arms if any(each.model == arm and each.task == VALID.format(epochs[-1]) for each in results)
    ]
    untrained = [arm for arm in arms if arm not in trained]
    for number, (rival, title) in enumerate(COMPARED):
        if rival not in trained or rival not in length.rivals:
            continue
        others = [arm for arm in trained if arm != rival]
        others += untrained if rival == "baseline" else []
        chosen = [each for each in results if each.model in (*others, rival)]
        comparison = Comparison(chosen, rival, corrected=True)
        lines += ["", f"Differences to `{rival}` ({title}):", ""]
        lines.append("| | seeds | " + " | ".join(name for name, *_ in columns) + " |")
        lines.append("|---|---:|" + "---:|" * len(columns))
        earlier = {name for name, _ in COMPARED[:number]}  # their tables have these rows with the other sign
        for arm in others:
            if arm in earlier:
                continue
            quantities = [quantity(results, task, metric) for _, task, metric in columns]
            found = [comparison.summary(arm, each) if each else None for each in quantities]
            paired = max((each.paired_seeds for each in found if each), default=0)
            lines.append(f"| `{arm}` | {paired} | {' | '.join(map(difference, found))} |")
    return lines


def main() -> None:
    lines, *sources = map(Path, sys.argv[1:])
    length = LENGTHS.get(lines.name, SIX_EPOCHS)
    if sources:
        folder, *others = sources
        found = [*map(published, read_results([folder / "results.jsonl"])), *on_valid(folder, length)]
        keys = {each.key for each in found}
        found += [published(each) for each in read_results(others) if each.key not in keys]
        (HERE / lines.name).write_text("".join(each.line for each in found), encoding="utf-8")
    made, begin = "\n".join(tables(read_results([HERE / lines.name]), length)), BEGIN.format(lines.name)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    PAGE.write_text(f"{before}{begin}\n\n{made}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()
