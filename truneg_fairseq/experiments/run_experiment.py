"""An experiment executed: what is missing is done, as many runs at a time as there are devices, and all is compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from filelock import FileLock
from tabulate import tabulate

from .. import register
from ..errors import TrueNegError
from ..files import hold_lock, replacing_text
from ..launch.jobs import Job, devices_of, run_jobs
from ..launch.training_run import RESULTS_NAME, check_precision, check_settings
from ..results.comparison import Comparison
from ..results.page import report_page
from ..results.result import Result
from ..results.tables import as_text, verdict, wrapped
from ..results.training_facts import find_runs
from ..workers import Progress
from . import ExperimentOptions
from .allowed_options import check_flags
from .arm_training import Pretraining, check_start
from .evaluation import Evaluation, evaluate_together, evaluations_of, in_processes
from .settings import Experiment

TABLES_NAME, PAGE_NAME = "comparison.md", "report.html"


@dataclass(frozen=True)
class Trial:
    """One arm with one seed: its training, and the evaluations of the trained model."""

    training: Pretraining
    evaluations: list[Evaluation]

    @property
    def name(self) -> str:
        """As shown."""
        return self.training.name

    @property
    def is_trained(self) -> bool:
        return self.training.model_path.exists()

    def missing(self, *, slow: bool) -> list[Evaluation]:
        return [each for each in self.evaluations if bool(each.fine_tuning) == slow and not each.done]

    def steps(self, *, slow: bool) -> int:
        """How much is to do: the training with the quick evaluations; or the slow ones, if it has not failed."""
        missing = len(self.missing(slow=slow))
        return missing * self.is_trained if slow else missing + (not self.is_trained)

    def work(self, job: Job, *, slow: bool) -> None:
        """Does what is missing; slow evaluations wait for all trainings."""
        training, done = self.training, 0
        if self.is_trained:
            training.tidy()  # a kill may have come before
        else:
            training.train(lambda updates: job.progress(0), job.device)
            training.keep_models()
            done = 1
            _say(f"{self.name}: trained in {training.used['wall_seconds']:.0f} s")
        device, missing = "" if training.cpu else job.device, self.missing(slow=slow)
        for group in in_processes(missing):
            said = evaluate_together(group, training, partial(job.progress, done), device)
            done += len(group)
            _say(said)

    def results(self, lost: list[str]) -> list[Result]:
        """The results of the evaluations that are done; ``lost`` gets a line for each that cannot be read."""
        found: list[Result] = []
        for evaluation in self.evaluations:
            try:
                found += evaluation.results() if evaluation.done else ()
            except TrueNegError as error:
                measured = evaluation.asked or evaluation.fine_tuning
                again = f"; remove {evaluation.record} to evaluate again" if measured else ""
                lost.append(f"{evaluation.name}: {error}{again}")
        return found

    def row(self) -> tuple[str, str, str]:
        """What is done, for a table."""
        begun = "begun" if self.training.folder.exists() else "-"
        missing = [each.name.split(",")[0] for each in self.evaluations if not each.done]
        done = f"{len(self.evaluations) - len(missing)} of {len(self.evaluations)}"
        state = "done" if self.is_trained or self.training.weights else begun
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
        trainings = [
            Pretraining(seed=seed, arm=arm, folder=runs / arm / f"seed-{seed}" / "train", **common)
            for arm in experiment.arms
            for seed in experiment.seeds_of(arm)
        ]
        # All arms with the first seed, then with the next ...: whatever is done first can be compared.
        trainings.sort(key=lambda training: training.seed)
        self.trials = [Trial(training, evaluations_of(training)) for training in trainings]

    @property
    def trainings(self) -> dict[str, Pretraining]:
        """Of each arm the one with its first seed."""
        found: dict[str, Pretraining] = {}
        for trial in self.trials:
            found.setdefault(trial.training.arm, trial.training)
        return found

    def table(self) -> str:
        """A line for each run: what is done of it."""
        return tabulate([("", "train", "evaluations done"), *(each.row() for each in self.trials)], tablefmt="plain")

    def execute(self) -> list[str]:
        """Does what is missing, writes tables and page, and returns a line for each failed run or lost result."""
        options, failed = self._options, list[str]()
        chosen = [trial for trial in self.trials if not options.only or trial.training.arm in options.only]
        with ExitStack() as held:
            for folder in (trial.training.folder for trial in chosen):  # other commands may work on other arms or seeds
                folder.parent.mkdir(parents=True, exist_ok=True)
                at_work = f"{folder.parent}: another command is at work there"
                held.enter_context(hold_lock(folder.with_name(".lock"), at_work))
            register()
            assert options.file is not None
            check_start(options.file, self._experiment)
            check_flags(options.file, self._experiment, self.trainings)
            for trial in chosen:
                check_settings(trial.training.folder, trial.training.settings)
            for slow in (False, True):
                if trials := [trial for trial in chosen if trial.steps(slow=slow)]:
                    self._work(trials, failed, slow=slow)
            return failed + self._write_outcome()

    def _work(self, trials: Sequence[Trial], failed: list[str], *, slow: bool) -> None:
        def work(trial: Trial, job: Job) -> None:
            try:
                trial.work(job, slow=slow)
            except TrueNegError as error:  # the others go on
                job.warn(str(error))
                failed.append(str(error))
            with job.lock:
                self._write_results()

        devices = devices_of(self._options.jobs, cpu=self._options.cpu)
        run_jobs(work, trials, devices, lengths=[trial.steps(slow=slow) for trial in trials], unit=" steps")

    def _write_results(self) -> tuple[list[Result], list[str]]:
        """Writes the results of all runs as one result file: by arm as the experiment has them, then by seed."""
        lost, output = list[str](), self._options.output
        in_order = [trial for arm in self._experiment.arms for trial in self.trials if trial.training.arm == arm]
        with FileLock(output / ".results.lock"):  # the last command to write knows what all have done
            results = [result for trial in in_order for result in trial.results(lost)]
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
        first = [each for each in self.trials if each.training.seed == experiment.first_seed and each.is_trained]
        if first:
            runs = find_runs(f"{each.training.arm}={each.training.folder}" for each in first)
            report_page(comparison, runs, title=experiment.title, verdict=said).write(output / PAGE_NAME)
        return lost


def _say(line: str) -> None:
    Progress.write(line, file=sys.stdout)
    sys.stdout.flush()
