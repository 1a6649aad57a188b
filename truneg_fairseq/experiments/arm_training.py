"""The training of one arm with one seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..convert.architecture import pretraining_flags
from ..corpus_counts import counts_beside
from ..errors import refuse
from ..fairseq_runs.saving import LAST
from ..files import sampled_fingerprint
from ..launch.training_run import MODEL_NAME, TrainingRun
from ..models.checkpoints import check_vocabulary, read_checkpoint
from ..objectives.options import named_sources, parsed
from ..registry import ALTERNATIVES, TERMS
from ..vocabulary import fingerprint as fingerprint_of
from ..vocabulary import read_symbols
from .settings import DEFAULTS, Experiment, Options, flags_of, kept_options

_WITHOUT_EFFECT = DEFAULTS.keys() | {"validate-interval-updates", "cuda-graphs", "num-workers"}
"""Options that change nothing of the result: a run may be continued with others."""

_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class Pretraining(TrainingRun):
    """One arm with one seed."""

    experiment: Experiment  # the file
    arm: str  # its name

    @property
    def name(self) -> str:
        """As shown."""
        return f"{self.arm} seed {self.seed}"

    @property
    def model_path(self) -> Path:
        """The file of the trained model, without the optimizer's state."""
        return self.folder / MODEL_NAME

    @property
    def earlier_models(self) -> list[Path]:
        """The files of the models after each of the experiment's milestones."""
        return [self.folder / f"model-{updates}.pt" for updates in self.experiment.milestones]

    def keep_models(self) -> None:
        """Keeps of the trained checkpoints the models alone."""
        for updates, path in zip(self.experiment.milestones, self.earlier_models, strict=True):
            if not path.exists():
                self.keep_model(path, sorted(self.folder.glob(f"checkpoint_*_{updates}.pt"))[-1])
        self.keep_model(self.model_path, self.folder / LAST)
        self.tidy()

    @property
    def options(self) -> Options:
        """The flags of fairseq-train, without those of the place and the hardware."""
        options = DEFAULTS | self.experiment.options_of(self.arm)
        every = self.experiment.evaluations.every
        if every and every % int(str(options["save-interval-updates"])):
            options["save-interval-updates"] = every
        validated = self.experiment.evaluations.electra or self.experiment.evaluations.generation
        if validated or options.get("validate-interval-updates"):
            options.pop("disable-validation")
        return options | ({"valid-subset": validated.split} if validated else {})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine its result, as JSON. Files are compared by content."""
        experiment, table = self.experiment, self.experiment.arms[self.arm].synonym_table
        files: dict[str, Path | None] = {"model.checkpoint": experiment.model.checkpoint, "synonym_table": table}
        read = (each for pattern in ("dict*.txt", "train*.bin", "train*.idx") for each in experiment.data.glob(pattern))
        files |= {f"data, {path.name}": path for path in sorted(read)}
        files |= {f"--{name}": path for name, path in experiment.files_of(self.arm).items()}
        flags = kept_options(self.options)
        sources = named_sources(flags.get("--soft-targets"), flags.get("--hc-detector"))
        terms = parsed(flags.get("--terms"), "--terms")
        if "corpus" in sources and "--corpus-counts" not in files:
            files["--corpus-counts"] = counts_beside(experiment.data)
        return {
            **{"updates": experiment.updates, "precision": experiment.precision, "arch": experiment.model.arch},
            **kept_options({name: value for name, value in self.options.items() if name not in _WITHOUT_EFFECT}),
            **ALTERNATIVES.digests(sources),
            **TERMS.digests(terms),
            **{name: fingerprint(path) for name, path in files.items() if path is not None},
            **({"every": experiment.evaluations.every} if experiment.milestones else {}),
        }

    @property
    def own_flags(self) -> list[object]:
        """The flags of fairseq-train for data, task, model, criterion, optimizer, and how often to save."""
        experiment, table = self.experiment, self.experiment.arms[self.arm].synonym_table
        arch, start = experiment.model.arch, experiment.model.checkpoint
        flags: list[object] = [experiment.data.resolve(), *flags_of(self.options)]
        flags += ["--max-update", experiment.updates]
        if experiment.milestones:
            flags += ["--keep-interval-updates-pattern", experiment.evaluations.every]
        flags += [f"--arch={arch}"] if start is None or arch is not None else _starting_point(start, experiment.data)[0]
        flags += [] if start is None else ["--finetune-from-model", start.resolve()]
        return flags + (["--synonym-table", table.resolve()] if table is not None else [])


@lru_cache(maxsize=1)
def _starting_point(checkpoint: Path, data: Path) -> tuple[tuple[str, ...], bool]:
    """The flags of a checkpoint, and whether it has a generator; its weights would fill the memory meanwhile.

    It has the vocabulary of the data, or is refused.
    """
    model = read_checkpoint(checkpoint)
    check_vocabulary(model, fingerprint_of(read_symbols(data)), data)
    return pretraining_flags(model), model.has_generator


def check_start(file: Path, experiment: Experiment) -> None:
    """Refuses a checkpoint of another vocabulary; a task that would leave half of it unused, and start a masked-LM head
    anew.
    """
    checkpoint = experiment.model.checkpoint
    if checkpoint is None or not _starting_point(checkpoint, experiment.data)[1]:
        return
    for arm in experiment.arms:
        task, expected = experiment.options_of(arm).get("task"), "electra_pretraining"
        found = f"{file}: model.checkpoint: {checkpoint} has a generator, and the task of arm {arm} is {task}"
        refuse((task != expected, f"{found}; expected {expected}, or another checkpoint"))


def fingerprint(path: Path) -> str:
    """A few digits that tell a file from another one."""
    return _fingerprint(path, path.stat().st_mtime_ns) if path.exists() else "missing"


@lru_cache(maxsize=256)
def _fingerprint(path: Path, changed: int) -> str:
    return sampled_fingerprint(path)[:_DIGITS]
