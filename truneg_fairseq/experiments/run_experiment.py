"""An experiment executed: what is missing is done, as many runs at a time as there are devices, and all is compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from filelock import FileLock
from tabulate import tabulate

from .. import register
from ..errors import TrueNegError
from ..files import hold_lock, replacing_text
from ..launch.jobs import Job, devices_of, run_jobs
from ..launch.training_run import RESULTS_NAME, check_precision, check_settings
from ..models.checkpoints import quiet_fairseq
from ..results.comparison import Comparison
from ..results.page import report_page
from ..results.result import Result
from ..results.tables import as_text, verdict, wrapped
from ..results.training_facts import find_runs
from ..workers import Progress
from . import ExperimentOptions
from .allowed_options import check_flags
from .arm_training import Pretraining, check_start
from .evaluation import Evaluation, evaluate_together, evaluations_of
from .settings import Experiment

TABLES_NAME, PAGE_NAME = "comparison.md", "report.html"


@dataclass(frozen=True, kw_only=True)
class Run(Pretraining):
    """One arm with one seed: its training and its evaluations."""

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        return evaluations_of(self)

    def missing(self, *, late: bool) -> list[Evaluation]:
        return [each for each in self.evaluations if each.late == late and not each.done]

    def steps(self, *, late: bool) -> int:
        """How much is to do: the training with the quick evaluations; or the late ones, if it has not failed."""
        trained, missing = self.model_path.exists(), len(self.missing(late=late))
        return missing * trained if late else missing + (not trained)

    def execute(self, job: Job, *, late: bool) -> None:
        """Does what is missing; late evaluations wait for all trainings."""
        done = 0
        if self.model_path.exists():
            self.tidy()  # a kill may have come before
        else:
            self.finish(lambda updates: job.progress(0), job.device)
            done = 1
            _say(f"{self.name}: trained in {self.used['wall_seconds']:.0f} s")
        device = "" if self.cpu else job.device
        missing = self.missing(late=late)
        together = [each for each in missing if each.asked]
        for group in [together] * bool(together) + [[each] for each in missing if not each.asked]:
            said = evaluate_together(group, self, partial(job.progress, done), device)
            done += len(group)
            _say(said)

    def results(self, lost: list[str]) -> list[Result]:
        """The results of the evaluations that are done; ``lost`` gets a line for each that cannot be read."""
        found: list[Result] = []
        for evaluation in self.evaluations:
            try:
                found += evaluation.results() if evaluation.done else ()
            except TrueNegError as error:
                measured = evaluation.calls or evaluation.asked
                again = f"; remove {evaluation.record} to evaluate again" if measured else ""
                lost.append(f"{evaluation.name}: {error}{again}")
        return found

    def row(self) -> tuple[str, str, str]:
        """What is done, for a table."""
        state = "done" if self.model_path.exists() or self.weights else "begun" if self.folder.exists() else "-"
        missing = [each.name.split(",")[0] for each in self.evaluations if not each.done]
        done = f"{len(self.evaluations) - len(missing)} of {len(self.evaluations)}"
        return self.name, state, done + (f", missing: {', '.join(missing)}" if missing else "")


class Runner:
    """An experiment in its folder."""

    def __init__(self, experiment: Experiment, options: ExperimentOptions) -> None:
        self._experiment, self._options = experiment, options
        check_precision(experiment.precision, cpu=options.cpu)
        self.comparison: list[str] = []  # its tables and its verdict for a terminal, when there are results
        common: dict[str, Any] = {"experiment": experiment, "precision": experiment.precision, "cpu": options.cpu}
        common["user_dir"] = options.user_dir
        runs = options.output / "runs"
        self.runs = [
            Run(seed=seed, arm=arm, folder=runs / arm / f"seed-{seed}" / "train", **common)
            for arm in experiment.arms
            for seed in experiment.seeds_of(arm)
        ]
        # All arms with the first seed, then with the next ...: whatever is done first can be compared.
        self.runs.sort(key=lambda run: run.seed)

    def table(self) -> str:
        """A line for each run: what is done of it."""
        return tabulate([("", "train", "evaluations done"), *(run.row() for run in self.runs)], tablefmt="plain")

    def execute(self) -> list[str]:
        """Does what is missing, writes tables and page, and returns a line for each failed run or lost result."""
        options, failed = self._options, list[str]()
        chosen = [run for run in self.runs if not options.only or run.arm in options.only]
        with ExitStack() as held:
            for run in chosen:  # commands for other arms or seeds may work in the same folder
                run.folder.parent.mkdir(parents=True, exist_ok=True)
                at_work = f"{run.folder.parent}: another command is at work there"
                held.enter_context(hold_lock(run.folder.with_name(".lock"), at_work))
            register()
            quiet_fairseq()
            assert options.file is not None
            check_start(options.file, self._experiment)
            check_flags(options.file, self._experiment, {run.arm: run for run in reversed(self.runs)})
            for run in chosen:
                check_settings(run.folder, run.settings)
            for late in (False, True):
                if runs := [run for run in chosen if run.steps(late=late)]:
                    self._run(runs, failed, late=late)
            return failed + self._write_outcome()

    def _run(self, runs: Sequence[Run], failed: list[str], *, late: bool) -> None:
        options = self._options
        devices = devices_of(options.jobs, cpu=options.cpu)

        def work(run: Run, job: Job) -> None:
            try:
                run.execute(job, late=late)
            except TrueNegError as error:  # the others go on
                job.warn(str(error))
                failed.append(str(error))
            with job.lock:
                self._write_results()

        run_jobs(work, runs, devices, lengths=[run.steps(late=late) for run in runs], unit=" steps")

    def _write_results(self) -> tuple[list[Result], list[str]]:
        """Writes the results of all runs as one result file: by arm as the experiment has them, then by seed."""
        lost, output = list[str](), self._options.output
        in_order = [run for arm in self._experiment.arms for run in self.runs if run.arm == arm]
        with FileLock(output / ".results.lock"):  # the last command to write knows what all have done
            results = [result for run in in_order for result in run.results(lost)]
            with replacing_text(output / RESULTS_NAME) as stream:
                stream.writelines(result.line for result in results)
        return results, lost

    def _write_outcome(self) -> list[str]:
        """Writes result file, tables and page; returns a line for each evaluation whose results are lost."""
        experiment, output = self._experiment, self._options.output
        results, lost = self._write_results()
        first_arm = next(iter(experiment.arms))
        baseline = first_arm if any(result.model == first_arm for result in results) else None
        comparison, said = Comparison(results, baseline) if results else None, list[str]()
        if comparison is not None:
            said = verdict(results, comparison.baseline, experiment.control)
            with replacing_text(output / TABLES_NAME) as stream:
                stream.write("\n".join([*as_text(comparison, "markdown"), "", *said, ""]))
            self.comparison = [*as_text(comparison), "", *wrapped(said)]
        # The curves of all seeds would hide each other.
        first = [run for run in self.runs if run.seed == experiment.first_seed and run.model_path.exists()]
        if first:
            runs = find_runs(f"{each.arm}={each.folder}" for each in first)
            report_page(comparison, runs, title=experiment.title, verdict=said).write(output / PAGE_NAME)
        return lost


def _say(line: str) -> None:
    Progress.write(line, file=sys.stdout)
    sys.stdout.flush()
