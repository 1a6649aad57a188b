"""What an experiment has found: a result file, the tables of ``truneg compare``, the page of ``truneg report``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..comparison.comparison import Comparison
from ..comparison.results import Result
from ..comparison.tables import NOTES, markdown, tables
from ..files import replacing_text
from ..finetuning.run import RESULTS_NAME
from ..pages.html import PageSizeError
from ..report.page import report_page
from ..report.run import find_runs
from .settings import Experiment
from .trial import Trial

TABLES_NAME = "comparison.md"
PAGE_NAME = "report.html"


def write_results(trials: Iterable[Trial], path: Path) -> tuple[list[Result], list[str]]:
    """Writes the results of all trials as one result file, as a whole.

    Returns:
        The results, by arm as the file has them, then by seed; and a line for each evaluation whose results are lost.
    """
    lost: list[str] = []
    in_order = sorted(trials, key=lambda trial: list(trial.run.experiment.arms).index(trial.run.arm))
    results = [result for trial in in_order for result in trial.results(lost)]
    with replacing_text(path) as stream:
        stream.writelines(result.line for result in results)
    return results, lost


def write_outcome(experiment: Experiment, trials: Sequence[Trial], output: Path) -> list[str]:
    """Writes result file, tables and page.

    Returns:
        A line for each evaluation whose results are lost.
    """
    (results, lost), arms = write_results(trials, output / RESULTS_NAME), list(experiment.arms)
    baseline = arms[0] if any(result.model == arms[0] for result in results) else None
    if results:
        comparison = Comparison(results, baseline)
        lines = [line for table in tables(comparison) for line in (*markdown(table), "")]
        with replacing_text(output / TABLES_NAME) as stream:
            stream.write("\n".join([*lines, *(note.format(baseline=comparison.baseline) for note in NOTES), ""]))
    # The curves of all seeds would hide each other.
    first = [trial.run for trial in trials if trial.run.seed == experiment.first_seed and trial.run.model_path.exists()]
    if first:
        runs = find_runs(f"{run.arm}={run.folder}" for run in first)
        try:
            html = report_page(runs, results, title=experiment.title, baseline=baseline).render()
        except PageSizeError as error:
            (output / PAGE_NAME).unlink(missing_ok=True)  # one of an earlier state
            print(f"warning: no {PAGE_NAME}: {error}, to truneg report", file=sys.stderr)
            return lost
        with replacing_text(output / PAGE_NAME) as stream:
            stream.write(html)
    return lost
