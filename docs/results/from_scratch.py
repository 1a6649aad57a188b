"""The lines and the tables of from_scratch.md.

    python docs/results/from_scratch.py OUT    # the folder of user_dir_examples/from_scratch/train.py: lines, tables
    python docs/results/from_scratch.py        # the tables, of the published lines

Differences are paired by seed; their 95 % intervals and p-values are Student's t over seeds and over blocks of held-out
sequences. A treatment's p-value is the largest of its comparisons, corrected for the treatments of a setting (Holm).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from truneg_fairseq.results.comparison import ENOUGH_SEEDS, Comparison, Part, Quantity, Summary
from truneg_fairseq.results.intervals import holm, seed_interval
from truneg_fairseq.results.result import BITS, Metric, Result, read_results

HERE = Path(__file__).parent
LINES, JUDGED, PAGE = (HERE / f"from_scratch{end}" for end in (".jsonl", "_judged.jsonl", ".md"))
BEGIN, END = "<!-- made by from_scratch.py -->", "<!-- end -->"
TITLES = {
    "short": "3,000 captions, a short training",
    "converged": "3,000 captions until plain training has converged",
    "more": "29,000 captions",
    "novels": "one million words of novels",
    "wide": "3,000 captions, a larger model",
}
TEXTS = {"3,000 captions": ("short", "converged"), "29,000 captions": ("more",)}  # and the settings that read them
SEEDS = range(1, 6)  # others are those of teachers, and of the tuning
CONTROLS = ("plain", "smoothing", "shuffled", "frequencies", "ensemble")  # the names of arms that are no treatments
LOSS = Metric("bits", False, BITS)
JUDGES = {
    "bits_other": ("other kind, bits ↓", LOSS),
    "others": ("mistakes that others said, points ↑", Metric("others", True)),
    "others_probability": ("probability of what others said, points ↑", Metric("probability", True)),
}

PERCENT = Metric("percent", True)
GENDER = "Zorro, anaphor_agreement-pronoun_gender"
FURTHER = {  # task and metric of judge.py's lines
    ("Zorro", "accuracy"): ("Zorro, accuracy ↑", PERCENT),
    (GENDER, "accuracy"): ("pronoun's gender, one of its 23 kinds ↑", PERCENT),
    ("lexsub kept (people)", "gap"): ("SWORDS, GAP ↑", PERCENT),
    ("lexsub kept (people)", "recall_at_10"): ("SWORDS, R@10 ↑", PERCENT),
    ("cloze", BITS): ("people's next words, bits ↓", LOSS),
}
RULE = (("Zorro", "accuracy"), ("lexsub kept (people)", "gap"), ("cloze", BITS))  # may not be harmed


def published(result: Result) -> Result:
    """With the items of what the tables judge at the end of a training alone."""
    kept = {BITS, *JUDGES} if result.at is None else set()
    parts = ({name: each[name] for name in each if name in kept} for each in (result.examples, result.denominators))
    examples, denominators = parts
    return replace(result, examples=examples, denominators=denominators)


class Setting:
    """The results of one setting; ``judged`` are those of judge.py."""

    def __init__(self, name: str, results: Sequence[Result], judged: Sequence[Result] = ()) -> None:
        self.name, self.results, self.judged = name, [each for each in results if each.group == name], judged
        arms = {each.model for each in self.results}
        self.arms = sorted(arms, key=lambda arm: (not arm.startswith("plain"), arm.startswith(CONTROLS), arm))
        self._against: dict[str, Comparison] = {}

    @property
    def treatments(self) -> list[str]:
        return [arm for arm in self.arms if not arm.startswith(CONTROLS)]

    def values(self, arm: str, metric: str, at: float | None = None) -> dict[int, float]:
        """By seed."""
        found = [each for each in self.results if (each.model, each.at) == (arm, at) and metric in each.metrics]
        return {each.seed: each.metrics[metric] for each in found}

    def summary(self, arm: str, rival: str, metric: str, kind: Metric, at: float | None = None) -> Summary | None:
        """Of the difference between two arms; None where one of them was not measured."""
        if arm == rival or not {arm, rival} <= set(self.arms):
            return None
        task = next((each.task for each in self.results if each.at == at), "")
        comparison = self._against.setdefault(rival, Comparison(self.results, rival))
        found = comparison.summary(arm, Quantity(metric, (Part(task, metric),), kind))
        return found if found and found.paired_seeds else None

    def rivals(self, arm: str) -> list[str]:
        """What a treatment has to beat besides plain training: the shuffled counts that are most like it, too."""
        share = share_of(arm)

        def unlike(control: str) -> tuple[bool, float]:
            return control.endswith("falling") != arm.endswith("falling"), abs(share_of(control) - share)

        return ["smoothing-0.1", *sorted((each for each in self.arms if each.startswith("shuffled")), key=unlike)[:1]]

    def helps(self) -> dict[str, tuple[float, bool]]:
        """Of each treatment with enough seeds the corrected p-value, and whether it helps by the rule."""
        worst, better = dict[str, float](), dict[str, bool]()
        for arm in self.treatments:
            found = [self.summary(arm, rival, BITS, LOSS) for rival in ("plain", *self.rivals(arm))]
            sure = [each for each in found if each and each.p_value is not None]
            if len(sure) == len(found):
                worst[arm] = max(each.p_value or 0.0 for each in sure)
                better[arm] = all((each.difference or 0.0) < 0 for each in sure) and not self.harms(arm)
        corrected = holm(worst)
        return {arm: (value, better[arm] and value < 0.05) for arm, value in corrected.items()}

    def harms(self, arm: str) -> list[str]:
        """The judges that a treatment makes worse than plain training does."""
        found = {name: self.summary(arm, "plain", metric, kind) for metric, (name, kind) in JUDGES.items()}
        found |= {FURTHER[what][0]: self.further(arm, *what) for what in RULE}
        return [name for name, each in found.items() if each and each.better is False]

    def further(self, model: str, task: str, metric: str) -> Summary | None:
        """Of the difference to plain training, over seeds alone, by a yardstick of judge.py."""
        if not self.judged:
            return None
        kind = FURTHER[task, metric][1]
        return Comparison(self.judged, "plain").summary(model, Quantity(metric, (Part(task, metric),), kind))


def share_of(arm: str) -> float:
    return next((float(part) for part in arm.split("-") if part[:2] == "0."), 0.0)


def difference(found: Summary | None) -> str:
    """With its interval, bold where that leaves out 0."""
    if found is None or found.difference is None:
        return "not run"
    value = found.quantity.format(found.difference, "+")
    if found.paired_seeds < ENOUGH_SEEDS or found.interval is None:
        return value
    text = f"{value} {found.quantity.ends(found.interval)}"
    return text if found.interval.contains_zero else f"**{text}**"


def mean(values: dict[int, float], factor: float = 1.0, digits: int = 3) -> str:
    """With the standard deviation over seeds."""
    if not values:
        return ""
    found = factor * np.array(list(values.values()))
    spread = f" ± {found.std(ddof=1):.{digits}f}" if len(found) > 1 else ""
    return f"{found.mean():.{digits}f}{spread}"


def judged(setting: Setting) -> Iterator[str]:
    """The differences at the end of the training."""
    judges = {metric: each for metric, each in JUDGES.items() if setting.values("plain", metric)}
    yield f"**{TITLES.get(setting.name, setting.name)}** (`{setting.name}`)"
    yield ""
    columns = [
        "same kind, bits ↓",
        "to label smoothing",
        "to shuffled",
        *(name for name, _ in judges.values()),
        "p (Holm)",
    ]
    yield "| difference to `plain` | seeds | " + " | ".join(columns) + " |"
    yield "|---|---:|" + "---:|" * len(columns)
    plain = [mean(setting.values("plain", BITS)), "", ""]
    plain += [
        mean(setting.values("plain", m), *((100, 1) if kind.unit == "%" else ())) for m, (_, kind) in judges.items()
    ]
    yield f"| (`plain` itself) | {len(setting.values('plain', BITS))} | {' | '.join(plain)} | |"
    verdicts = setting.helps()
    for arm in setting.arms:
        if arm == "plain" or not setting.values(arm, BITS):
            continue
        rivals = setting.rivals(arm) if arm in setting.treatments else []
        cells = [difference(setting.summary(arm, "plain", BITS, LOSS))]
        cells += [difference(setting.summary(arm, rival, BITS, LOSS)) for rival in rivals] or ["", ""]
        cells += [difference(setting.summary(arm, "plain", metric, kind)) for metric, (_, kind) in judges.items()]
        p, helps = verdicts.get(arm, (None, False))
        cells.append("" if p is None else f"{p:.2g}{', **helps**' * helps}")
        yield f"| `{arm}` | {len(setting.values(arm, BITS))} | {' | '.join(cells)} |"
    yield ""


def judged_further(setting: Setting) -> Iterator[str]:
    """The yardsticks of judge.py: plain training, and the differences of the others to it."""
    if not setting.judged:
        return
    yield f"| `{setting.name}`, difference to `plain` | seeds | {' | '.join(title for title, _ in FURTHER.values())} |"
    yield "|---|---:|" + "---:|" * len(FURTHER)
    measured = {each.model for each in setting.judged}
    for model in filter(measured.__contains__, [*setting.arms, "untrained", "frequencies"]):
        found = [setting.further(model, *what) for what in FURTHER]
        seeds = max((len(each.values) for each in found if each), default=0)
        if model == "plain":
            cells = [
                mean(each.values, each.quantity.factor, 3 - 2 * (kind is PERCENT))
                for each, (_, kind) in zip(found, FURTHER.values(), strict=True)
                if each
            ]
        else:
            cells = [difference(each) for each in found]
        yield f"| {'(`plain` itself)' if model == 'plain' else f'`{model}`'} | {seeds} | {' | '.join(cells)} |"
    yield ""


def curves(setting: Setting) -> Iterator[str]:
    """The differences after each quarter, and the losses with a temperature and with counts at inference."""
    titles = [
        "after 25 %",
        "50 %",
        "75 %",
        "100 %",
        "with a temperature",
        "with the counts looked up",
        "other kind, looked up",
    ]
    yield f"| `{setting.name}`, same kind, bits ↓ | {' | '.join(titles)} |"
    yield "|---|" + "---:|" * len(titles)
    metrics = [(BITS, 25.0), (BITS, 50.0), (BITS, 75.0), (BITS, None), ("bits_tempered", None), ("bits_corpus", None)]
    metrics.append(("bits_other_corpus", None))
    for arm in setting.arms:
        if arm == "plain":
            cells = [mean(setting.values(arm, metric, at)) for metric, at in metrics]
        else:
            cells = [difference(setting.summary(arm, "plain", metric, LOSS, at)) for metric, at in metrics]
        if any(cell not in ("", "not run") for cell in cells):
            yield f"| `{arm}` | {' | '.join(cells)} |"
    yield ""


def looked_up(settings: Sequence[Setting]) -> Iterator[str]:
    """Plain training with the counts looked up, to itself without them and to models that were taught them."""
    taught = ("plain", "corpus-0.4", "corpus-0.8-falling")
    yield f"| `plain` with the counts looked up, same kind, bits ↓ | {' | '.join(f'to `{arm}`' for arm in taught)} |"
    yield "|---|" + "---:|" * len(taught)
    for setting in settings:
        mixed = setting.values("plain", "bits_corpus")
        cells = []
        for arm in taught:
            alone = setting.values(arm, BITS)
            each = np.array([mixed[seed] - alone[seed] for seed in sorted(mixed.keys() & alone.keys())])
            if (interval := seed_interval(each)) is None:
                cells.append("not run")
                continue
            text = f"{each.mean():+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
            cells.append(text if interval.contains_zero else f"**{text}**")
        yield f"| `{setting.name}` | {' | '.join(cells)} |"
    yield ""


def level(setting: Setting, arm: str) -> float:
    """The mean loss at the end: that of plain training over all seeds, and the difference over those that both have."""
    plain, found = setting.values("plain", BITS), setting.values(arm, BITS)
    differences = [found[seed] - plain[seed] for seed in found.keys() & plain.keys()]
    return float(np.mean(list(plain.values())) + np.mean(differences))


def updates_of(setting: Setting, arm: str) -> int:
    (updates,) = {each.settings["updates"] for each in setting.results if each.model == arm}
    return int(updates)


def needed(text: str, settings: Sequence[Setting]) -> Iterator[str]:
    """The updates that plain training needs for the losses of the treatments."""
    lengths = [(setting, arm) for setting in settings for arm in setting.arms if arm.startswith("plain")]
    plain = dict(sorted((updates_of(*each), level(*each)) for each in lengths))
    if len(plain) < 2:
        return
    yield f"| {text} | updates | same kind, bits | updates that plain training needs for that loss |"
    yield "|---|---:|---:|---:|"
    for updates, loss in plain.items():
        yield f"| plain training | {updates:,} | {loss:.3f} | {updates:,} |"
    sizes, losses = np.log(list(plain)), np.minimum.accumulate(list(plain.values()))
    for setting in settings:
        for arm in setting.treatments:
            loss = level(setting, arm)
            if loss < losses[-1]:
                shown = f"more than {max(plain):,}"
            elif loss > losses[0]:
                shown = f"fewer than {min(plain):,}"
            else:
                shown = f"about {np.exp(np.interp(-loss, -losses, sizes)):,.0f}"
            yield f"| `{arm}`, {setting.name} | {updates_of(setting, arm):,} | {loss:.3f} | {shown} |"
    yield ""


def tables(results: Sequence[Result], further: Sequence[Result] = ()) -> str:
    names = dict.fromkeys(each.group for each in results)
    settings = [Setting(name, results, further if name == "novels" else ()) for name in names]
    lines = [line for setting in settings for each in (judged, judged_further) for line in each(setting)]
    lines += [line for setting in settings for line in curves(setting)]
    lines += looked_up(settings)
    for text, names in TEXTS.items():
        lines += needed(text, [setting for setting in settings if setting.name in names])
    return "\n".join(lines).rstrip()


def main() -> None:
    if len(sys.argv) > 1:
        found = read_results([Path(sys.argv[1]) / "results.jsonl"])
        ended = {(each.group, each.model, each.seed) for each in found if each.at is None}
        kept = [
            published(each) for each in found if each.seed in SEEDS and (each.group, each.model, each.seed) in ended
        ]
        LINES.write_text("".join(each.line for each in kept), encoding="utf-8")
        judged = read_results([path]) if (path := Path(sys.argv[1]) / "judged.jsonl").exists() else []
        kept = [
            replace(each, metrics=of, examples={}, denominators={}, example_ids=[], settings={})
            for each in judged
            if (of := {name: value for name, value in each.metrics.items() if (each.task, name) in FURTHER})
        ]
        JUDGED.write_text("".join(each.line for each in kept), encoding="utf-8")
    made = tables(*(read_results([path]) for path in (LINES, JUDGED)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()
