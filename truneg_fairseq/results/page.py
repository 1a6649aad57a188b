"""The page of a report: what the runs logged, what was measured of them, what was run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ..fairseq_runs.folder import TRAINING
from ..files import VERSION
from .charts import difference_charts, line_chart
from .comparison import Comparison
from .html import Cell, Page, Section
from .result import Example, examples_in
from .tables import Table, notes, tables
from .training_facts import QUANTITIES as MEASURED
from .training_facts import Run, differing_facts, fact_names, measured, updates_of

_TITLES = {
    **{"loss": "loss, bits per predicted token", "nll_loss": "cross-entropy (nll_loss), bits per target token"},
    **{"objective": "objective, bits per masked token", "bits": "loss, bits per masked token"},
    **{"gen_loss": "generator's loss, bits", "disc_loss": "discriminator's loss, bits"},
    **{"accuracy": "accuracy, % of the masked tokens", "gen_accuracy": "generator's accuracy, %"},
    **{"disc_accuracy": "discriminator's accuracy, %", "disc_precision": "discriminator's precision, %"},
    **{"disc_recall": "discriminator's recall, %", "replaced": "replaced, % of the masked tokens"},
    **{"hc_pred": "corrected, % of the mistakes", "hc_iter": "sequences with a correction, %"},
    **{"smoothed": "smoothed, % of the predicted tokens", "smoothed_mass": "given to other words, % of the targets"},
    **{"disc_fn": "discriminator's false negatives, % of the replaced"},
    **{"sr": "SR, mean of 1 - cosine", "kl": "KL, nats per token"},
    **{"wps": "words per second", "ups": "updates per second", "gb_free": "free memory of the GPU, GB"},
}
_BOOKKEEPING = {"ppl", "wpb", "bsz", "lr", "gnorm", "clip", "loss_scale", "train_wall", "wall", "best_loss"}
_MUST_AGREE = (
    *("data", "seed", "max_update", "batch_size", "max_tokens", "update_freq", "tokens_per_sample", "mask_prob"),
    *("lr", "warmup_updates", "optimizer", "fp16", "bf16", "arch", "parameters", "workers", "finetune_from_model"),
)
_EXAMPLES = 12
_Rows = list[list[Cell | str]]


def report_page(
    comparison: Comparison | None,
    runs: Sequence[Run] = (),
    *,
    title: str,
    verdict: Sequence[str] = (),
    examples: Mapping[str, Sequence[Example]] = MappingProxyType({}),
) -> Page:
    """The page of a comparison, of trainings, or of both; ``examples`` are of false negatives, by model, beside those
    of the trainings. The verdict's sentences stand at the top with the comparison; otherwise the last validation
    losses.
    """
    compared, trained = list[Section](), [*_overview(runs), *_table_2(runs), *_curves(runs)]
    if comparison is not None:
        made, charts = tables(comparison), difference_charts(comparison)
        compared = [Section("Comparison", "comparison", charts=charts, tables=made, footnotes=notes(comparison))]
    first = compared + trained if verdict else trained + compared
    of_runs = {run.name: [example for each in run.results for example in examples_in(each)] for run in runs}
    note = f"Written by truneg_fairseq {VERSION}. Charts, tables and text are in this file; it needs no network."
    return Page(
        title,
        [*(verdict or _last_losses(runs)), note],
        [*first, *_what_was_run(runs), *_examples({**of_runs, **examples})],
    )


def _last_losses(runs: Sequence[Run]) -> list[str]:
    """The verdict of trainings: the loss of each on the held-out text, and what that does not say."""
    for name, unit in (("nll_loss", "target"), ("loss", "masked")):  # the first is of models that generate
        known = {run.name: (max(values), values[max(values)]) for run in runs if (values := _validated(run, name))}
        if known:
            losses = [f"{run} {loss:.4g} (update {at:,})" for run, (at, loss) in known.items()]
            said = f"Loss on the held-out text in bits per {unit} token, lower is better: {', '.join(losses)}."
            several = "With one training each, a difference may be chance; train several seeds of each."
            return [said, several] if len(known) > 1 else [said]
    return []


def _overview(runs: Sequence[Run]) -> Iterator[Section]:
    if not runs:
        return
    columns = ("loss", "nll_loss", "ppl", "accuracy", "hc_pred", "hc_iter", "smoothed", "smoothed_mass", "sr", "kl")
    known = [name for name in columns if any(_validated(run, name) for run in runs)]
    rows: _Rows = []
    for run in runs:
        updates = f"{run.updates:,} of {run.most_updates:,}"
        what: list[Cell | str] = [run.facts.get("criterion", "-"), Cell(run.objective, kind="long"), updates, run.state]
        last = [f"{values[max(values)]:.4g}" if (values := _validated(run, name)) else "-" for name in known]
        rows.append([run.name, *last, *what])
    warnings = [warning for run in runs for warning in run.warnings]
    warnings += [
        f"The runs differ in {name} ({'; '.join(values)}): differences may not come from the objective alone."
        for name, values in differing_facts(list(runs), _MUST_AGREE).items()
    ]
    head = ["run", *known, "criterion", "objective", "updates", "state"]
    title = "The last validation: loss in bits, rates in %"
    yield Section("Overview", "overview", warnings, tables=[Table(title, head, rows)])


def _validated(run: Run, name: str) -> dict[int, float]:
    """The values on the first validation set."""
    sets = run.validations
    return run.series.get((sets[0], name), {}) if sets else {}


def _curves(runs: Sequence[Run]) -> Iterator[Section]:
    sets = dict.fromkeys(name for run in runs for name in run.validations)
    for stage, title in [*((name, f"Validation: {name}") for name in sets), (TRAINING, "While training")]:
        logged = {name: None for run in runs for at, name in run.series if at == stage and name not in _BOOKKEEPING}
        charts = []
        for name in dict.fromkeys([*(name for name in _TITLES if name in logged), *logged]):
            found = {run.name: sorted(run.series.get((stage, name), {}).items()) for run in runs}
            lines = {run: points for run, points in found.items() if points}
            if all(len(points) == 1 for points in lines.values()):  # the overview has it
                continue
            unit = _TITLES.get(name, name)
            charts.append(line_chart(unit.split(",")[0], lines, y_title=unit, series=list(found)))
        if charts:
            yield Section(title, f"curves-{len(charts)}-{stage}", charts=charts)


def _table_2(runs: Sequence[Run]) -> Iterator[Section]:
    every = [(run.name, each) for run in runs for each in run.results]
    quantities = [name for name in MEASURED if any(measured(each, name) for _, each in every)]
    if not quantities:
        return
    rows: _Rows = []
    for name, each in every:
        values = [_with_ends(measured(each, quantity)) for quantity in quantities]
        rows.append(
            [name, Path(str(each.settings.get("checkpoint", each.model))).name, f"{updates_of(each):,}", *values]
        )
    charts = []
    over_training = any(len(set(map(updates_of, run.results))) > 1 for run in runs)
    for quantity in quantities if over_training else ():  # else the table has it
        lines: dict[str, list[tuple[float, ...]]] = {}
        for name, each in every:
            if value := measured(each, quantity):
                lines.setdefault(name, []).append((updates_of(each), *value))
        title = _TITLES[quantity]
        shown = f"{title.split(',')[0].capitalize()} on the measured text"
        charts.append(line_chart(shown, lines, y_title=title, series=[run.name for run in runs]))
    sizes = {(each.settings.get("sequences"), each.settings.get("masked")) for _, each in every}
    of = "the same text and masks" if len(sizes) == 1 else "of different texts or masks, which do not compare"
    caption = f"Measured checkpoints, {of}; intervals over sequences"
    head = ["run", "checkpoint", "updates", *(f"{name}, 95 % interval" for name in quantities)]
    yield Section(
        "False negatives over training (Table 2)",
        "table-2",
        notes=["A mistake counts as corrected where the prediction is a synonym of the original word."],
        charts=charts,
        tables=[Table(caption, head, rows, filtered=True)],
    )


def _with_ends(value: Sequence[float]) -> str:
    return "{:.3f} [{:.3f}, {:.3f}]".format(*value) if len(value) > 1 else "".join(f"{one:.3f}" for one in value) or "-"


def _what_was_run(runs: Sequence[Run]) -> Iterator[Section]:
    names = fact_names(list(runs))
    if not names:
        return
    differing = differing_facts(list(runs), names)
    rows: _Rows = [
        [
            name.replace("_", " "),
            *(Cell(run.facts.get(name, "-"), kind="differs" if name in differing else "") for run in runs),
        ]
        for name in names
    ]
    note = "Marked rows differ between the runs."
    table = Table("Settings and surroundings", ["", *(run.name for run in runs)], rows, filtered=True)
    yield Section("What was run", "what-was-run", notes=[note] if differing else [], tables=[table])


def _examples(by_model: Mapping[str, Sequence[Example]]) -> Iterator[Section]:
    rows: _Rows = []
    for name, examples in by_model.items():
        for one in sorted(examples, key=lambda one: -one.acceptance)[:_EXAMPLES]:
            text = f"{one.before} [{one.gold} → {one.prediction}] {one.after}".strip()
            chances = [f"{p:.3f}" for p in (one.gold_probability, one.prediction_probability, one.acceptance)]
            rows.append([name, one.gold, Cell(one.prediction, kind="false-negative"), *chances, text])
    if not rows:
        return
    head = ["run", "original", "prediction", "p(original)", "p(prediction)", "people accept", "in its sentence"]
    yield Section(
        "Examples",
        "examples",
        notes=[
            "Mistakes that the synonym table lists for the original word, and the probability that people accept them "
            "(of WordNet's pairs about 1 in 7)."
        ],
        tables=[Table("False negatives of the last measured checkpoints", head, rows, filtered=True)],
    )
