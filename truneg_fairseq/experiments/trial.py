"""What an experiment consists of: arms with their seeds, each to be trained and evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..comparison.results import Result
from ..errors import TrueNegError
from ..finetuning.run import DONE_NAME, changed_setting
from .stages import Stage, stages_of
from .training import PretrainingRun

TRAIN = "train"
DONE, _MISSING = "done", "-"


@dataclass(frozen=True)
class Trial:
    """One arm with one seed: its training and its evaluations."""

    run: PretrainingRun  # the training
    folder: Path  # of both

    @cached_property
    def stages(self) -> list[Stage]:
        """The evaluations."""
        return stages_of(self.run, self.folder)

    def results(self, lost: list[str]) -> list[Result]:
        """Of the evaluations that are done.

        Args:
            lost: gets a line for each of them whose results cannot be read.
        """
        found: list[Result] = []
        for stage in self.stages:
            try:
                found += stage.results() if stage.done else ()
            except TrueNegError as error:
                again = f"; remove {stage.folder / DONE_NAME} to evaluate again" if stage.commands else ""
                lost.append(f"{stage.name}: {error}{again}")
        return found

    def check(self, file: Path) -> None:
        """Refuses to go on where the file asks for something else than what the folder has."""
        named = {TRAIN: (self.run.folder, self.run.settings)}
        named |= {stage.name: (stage.folder, stage.settings) for stage in self.stages}
        for name, (folder, settings) in named.items():
            if difference := changed_setting(folder, settings):
                what = f"the training of {self.run.name}" if name == TRAIN else name
                raise TrueNegError(
                    f"{file}: {what} has {difference.replace('expected', 'and the file asks for')}; put it back, give "
                    f"the arm another name, or choose another --output (the old one is {folder})"
                )

    def state(self) -> list[str]:
        """What is done of the training and of each evaluation, for a table."""
        trained = self.run.model_path.exists() or self.run.weights is not None
        begun = self.run.folder.exists() and not trained
        first = DONE if trained else "begun" if begun else _MISSING
        return [first, *(DONE if stage.done else _MISSING for stage in self.stages)]


@dataclass(frozen=True)
class Unit:
    """What one job does: a trial's training with the quick evaluations, or its late ones."""

    trial: Trial
    late: bool

    @property
    def name(self) -> str:
        """As shown."""
        return self.trial.run.name

    @property
    def missing(self) -> list[Stage]:
        """Its evaluations that are not done."""
        return [stage for stage in self.trial.stages if stage.late == self.late and not stage.done]

    @property
    def steps(self) -> int:
        """Trainings and evaluations to do."""
        return len(self.missing) + (not self.late and not self.trial.run.model_path.exists())
