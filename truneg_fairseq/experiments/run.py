"""An experiment executed: what is missing is done, as many jobs at a time as there are devices, and all is compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..files import make_output_folder
from ..finetuning.jobs import Job, devices_of, run_jobs
from ..finetuning.run import RESULTS_NAME, Hardware, hold_lock
from ..finetuning.training import check_precision, quiet_fairseq, start_fairseq
from .outcome import write_outcome, write_results
from .settings import Experiment, require_seeds
from .training import PretrainingRun, check_start
from .trial import DONE, TRAIN, Trial, Unit


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``truneg experiment``; see its help."""

    file: Path
    output: Path
    only: Sequence[str]
    jobs: int
    cpu: bool


class Runner:
    """An experiment in its folder.

    Args:
        experiment: the file's content.
        options: see :class:`Options`.
    """

    def __init__(self, experiment: Experiment, options: Options) -> None:
        self._experiment, self._options = experiment, options
        if options.jobs < 1:
            raise TrueNegError(f"--jobs {options.jobs}: expected 1 or more")
        for arm in options.only:
            if arm not in experiment.arms:
                raise TrueNegError(f"--only {arm}: expected some of {', '.join(experiment.arms)}")
            require_seeds(options.file, experiment, arm)
        if options.output.exists() and not options.output.is_dir():
            raise TrueNegError(f"--output {options.output}: is not a folder; choose another")
        check_precision(experiment.precision, cpu=options.cpu)
        self.trials = list(self._trials())

    def _trials(self) -> Iterator[Trial]:
        """All arms with the first seed, then with the next ...: whatever is done first can be compared."""
        experiment, options = self._experiment, self._options
        hardware = Hardware(precision=experiment.precision, cpu=options.cpu)
        for seed in sorted(set().union(*map(experiment.seeds_of, experiment.arms))):
            for arm in experiment.arms:
                if seed not in experiment.seeds_of(arm):
                    continue
                folder = options.output / "runs" / arm / f"seed-{seed}"
                run = PretrainingRun(
                    seed=seed, folder=folder / TRAIN, hardware=hardware, experiment=experiment, arm=arm
                )
                yield Trial(run, folder)

    def check(self) -> None:
        """Before anything is done."""
        start_fairseq()
        quiet_fairseq()
        check_start(self._options.file, self._experiment)
        for trial in self.trials:
            trial.check(self._options.file)

    def table(self) -> list[str]:
        """A line a trial: what is done of it."""
        rows = [("", TRAIN, "evaluations done")]
        for trial in self.trials:
            trained, *states = trial.state()
            missing = [stage.name.split(",")[0] for stage in trial.stages if not stage.done]
            done = f"{states.count(DONE)} of {len(states)}" + (f", missing: {', '.join(missing)}" if missing else "")
            rows.append((trial.run.name, trained, done))
        for arm in self._experiment.arms:
            if not self._experiment.seeds_of(arm):
                rows.append((arm, "-", f"no seed: its last one is below first_seed {self._experiment.first_seed}"))
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return [f"{name:{widths[0]}}  {trained:{widths[1]}}  {done}" for name, trained, done in rows]

    def execute(self) -> list[str]:
        """Does what is missing, and writes tables and page.

        Returns:
            A line for each trial that failed, and for each evaluation whose results are lost.
        """
        options = self._options
        make_output_folder(options.output)
        with hold_lock(options.output / ".lock", f"{options.output}: another experiment is at work there"):
            self.check()
            devices = devices_of(options.jobs, cpu=options.cpu)
            failed: list[str] = []
            chosen = [trial for trial in self.trials if not options.only or trial.run.arm in options.only]
            for stage in (stage for trial in chosen for stage in trial.stages if stage.done):
                stage.tidy()  # a kill may have come before
            for late in (False, True):
                units = [unit for trial in chosen if (unit := Unit(trial, late)).steps]
                if units:
                    self._run(units, devices, failed)
            failed += write_outcome(self._experiment, self.trials, options.output)
        return failed

    def _run(self, units: Sequence[Unit], devices: Sequence[str | None], failed: list[str]) -> None:
        def work(unit: Unit, job: Job) -> None:
            try:
                self._work(unit, job)
            except TrueNegError as error:  # the others go on
                job.warn(str(error))
                failed.append(str(error))
            self._keep_results(job.lock)

        run_jobs(work, units, devices, lengths=[unit.steps for unit in units], unit=" steps")

    def _work(self, unit: Unit, job: Job) -> None:
        run, done = unit.trial.run, 0
        if run.model_path.exists():
            run.tidy()  # a kill may have come before
        elif unit.late:
            return  # its training failed
        else:
            run.finish(lambda updates: job.progress(0), job.device)
            done = 1
            _say(f"{run.name}: trained in {run.used['wall_seconds']:.0f} s")
        device = "" if self._options.cpu else job.device
        for number, stage in enumerate(unit.missing, start=done):
            stage.run(lambda number=number: job.progress(number), device)  # type: ignore[misc]
            _say(f"{stage.name}: done in {stage.wall_seconds:.0f} s")

    def _keep_results(self, lock: AbstractContextManager[Any]) -> None:
        with lock:
            write_results(self.trials, self._options.output / RESULTS_NAME)


def _say(line: str) -> None:
    from ..progress import Progress

    Progress.write(line, file=sys.stdout)
    sys.stdout.flush()
