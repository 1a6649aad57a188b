"""An experiment's file: YAML, read by OmegaConf, its types checked by msgspec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from ..errors import TrueNegError, refuse
from ..evaluation.yardstick import Task
from ..files import convert, read_bytes
from ..registry import TASKS, YARDSTICKS

Value = bool | int | float | str | list[int | float | str] | None
"""An option's value. true: the bare flag. false or null: no flag, even if `training` sets it."""

_Option = Annotated[str, Meta(pattern=r"^\w[\w-]*$", max_length=80)]
Options = dict[_Option, Value]  # by the flags' names, without the dashes in front
DEFAULTS: Options = {"save-interval-updates": 100, "log-interval": 10, "disable-validation": True}
"""fairseq-train's options where the file says nothing. Validation is what the evaluations are for."""

_Count = Annotated[int, Meta(ge=1)]
_Name = Annotated[str, Meta(pattern=r"^\w[\w.+-]*$", max_length=80)]
_EXPECTED = "an experiment (see docs/start/experiments.md)"
_OWN_OF_FINETUNING = frozenset("models prepared output tasks seeds cpu user-dir".split())

FILE_OPTIONS = ("corpus-counts", "hc-acceptance-model", "teacher")


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is trained."""

    checkpoint: Path | None = None  # a fairseq checkpoint to continue from; None to start from scratch
    arch: str | None = None  # of fairseq-train; None for the architecture of the checkpoint, with its sizes
    options: Options = {}  # of the architecture


class Arm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One treatment."""

    options: Options = {}  # of fairseq-train, beside and instead of those of all arms
    synonym_table: Path | None = None  # of the criterion; None for the one beside the data
    seeds: _Count | None = None  # the last seed that it is trained with; None for the experiment's


class Validation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a training logs when fairseq-train validates at its end. ``electra``: of generator and discriminator, which
    sees what the arm's own generator samples. ``generation``: ``nll_loss``, bits per target token without smoothing.
    """

    split: str = "valid"  # of the data


class Finetuning(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``truneg finetune``; the mean over its seeds counts."""

    prepared: Path  # the folder that ``truneg data prepare`` made
    tasks: Annotated[list[_Name], Meta(min_length=1)]  # CoLA, SQuAD ..
    seeds: _Count = 5  # of the fine-tuning, 1 to this
    options: Options = {}  # of the command: epochs, lr ..
    arms: list[str] | None = None  # the arms that it is for; None for all


class Evaluations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is measured of every trained model."""

    tasks: dict[str, Task] = {}  # by the names of ``truneg evaluate --task``
    every: _Count | None = None  # held-out text also after each so many updates (Table 2); None for the end alone
    electra: Validation | None = None
    generation: Validation | None = None
    finetune: dict[_Name, Finetuning] = {}  # by names for the file


class Experiment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    title: str = "Experiment"  # of the report
    paths: dict[str, str] = {}  # named for use in the rest of the file, as ``${paths.data}``
    data: Path  # folder of binarized data
    model: Model
    training: Options  # fairseq-train's options for all arms
    precision: Annotated[str, Meta(pattern="^(fp32|fp16|bf16)$")] = "fp32"  # fp32, fp16 or bf16
    updates: _Count  # of every training
    first_seed: _Count = 1  # of every arm; above 1 to train new seeds alone
    seeds: _Count = 1  # the last seed of every arm, which has all from the first one to this
    # by their names; the first is what the others are compared with
    arms: Annotated[dict[_Name, Arm], Meta(min_length=1)]
    control: str | None = None  # an arm that the verdict compares the others with too
    evaluations: Evaluations = Evaluations()

    def seeds_of(self, arm: str) -> range:
        """The seeds that an arm is trained with."""
        return range(self.first_seed, (self.arms[arm].seeds or self.seeds) + 1)

    @property
    def milestones(self) -> range:
        """The numbers of updates, before the last one, after which held-out text is measured."""
        every = self.evaluations.every or self.updates
        return range(every, self.updates, every)

    def options_of(self, arm: str) -> Options:
        """fairseq-train's options of an arm, by their flags' names with dashes; files with their whole paths."""
        options: Options = {}
        for part in (self.training, self.model.options, self.arms[arm].options):
            options |= with_dashes(part)
        return options | {name: str(Path(str(options[name])).resolve()) for name in FILE_OPTIONS if options.get(name)}

    def files_of(self, arm: str) -> dict[str, Path]:
        """The files that an arm's options name, by the options."""
        options = self.options_of(arm)
        return {name: Path(str(options[name])) for name in FILE_OPTIONS if options.get(name)}


def with_dashes(options: Options) -> Options:
    """Options by their flags' names: ``weight_decay`` is ``weight-decay``."""
    return {name.replace("_", "-"): value for name, value in options.items()}


def kept_options(options: Options) -> dict[str, str]:
    """The options that a command line has, by their flags; "" for a bare flag."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return {
        f"--{name}": ",".join(map(str, value)) if isinstance(value, list) else "" if value is True else str(value)
        for name, value in given.items()
    }


def flags_of(options: Options) -> list[str]:
    """Options as a command line has them, each one word: a value is never read as another flag."""
    return [f"{flag}={value}" if value else flag for flag, value in kept_options(options).items()]


def read_experiment(path: Path, overrides: Sequence[str] = (), only: Sequence[str] = ()) -> Experiment:
    """Reads an experiment's file: YAML in which ``${paths.data}`` is another value of the file, and ``overrides`` such
    as ``updates=10`` take the place of values. If ``only`` names arms, the files of the others need not be there yet.
    """
    from omegaconf import OmegaConf  # the process of an evaluation needs none
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
    from yaml import YAMLError

    text = read_bytes(path, expected=_EXPECTED)
    try:
        parts = OmegaConf.create(text.decode()), OmegaConf.from_dotlist(list(overrides))
        for part in parts:
            _check_references(path, OmegaConf.to_container(part))
        found: Any = OmegaConf.to_container(OmegaConf.merge(*parts), resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise TrueNegError(f"{path}: {error.full_key} has no value; give it with --set {error.full_key}=...") from None
    except (OmegaConfBaseException, YAMLError, UnicodeDecodeError, RecursionError) as error:
        told = " ".join(str(error).split())  # YAML's errors have lines
        raise TrueNegError(f"{path}: {told}; expected {_EXPECTED}, with --set NAME=VALUE for other values") from None
    evaluations = found.pop("evaluations", None)
    asked = dict(evaluations) if isinstance(evaluations, dict) else {}
    tasks = {name: asked.pop(name) for name in [*asked] if name not in Evaluations.__struct_fields__}
    tasks = {name: value for name, value in tasks.items() if value is not None}
    for name in tasks:
        YARDSTICKS.look_up(name, f"{path}: evaluations:")
    asked["finetune"] = {name: part for name, part in (asked.get("finetune") or {}).items() if part is not None}
    every = tasks["held-out"].pop("every", None) if isinstance(tasks.get("held-out"), dict) else None
    experiment = convert({**found, "evaluations": asked | {"every": every}}, str(path), Experiment, expected=_EXPECTED)
    named = {name: _task(path, name, value) for name, value in tasks.items()}
    experiment = structs.replace(experiment, evaluations=structs.replace(experiment.evaluations, tasks=named))
    _check(path, experiment, only)
    wanted = {arm: experiment.arms[arm] for arm in only or experiment.arms}
    _check_files(path, structs.replace(experiment, arms=wanted))
    return experiment


def _check_references(path: Path, value: Any) -> None:
    """Refuses OmegaConf's resolvers: ``${oc.env:NAME}`` would put a variable of the environment into the page."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_references(path, each)
    if isinstance(value, str):
        expected = "expected ${paths.NAME}, with --set paths.NAME=VALUE for other values"
        refuse(("${" in re.sub(r"\$\{[\w.-]+\}", "", value), f"{path}: {value[:80]}: {expected}"))


def _task(path: Path, name: str, asked: Any) -> Task:
    """A yardstick: FILE, a list of files, or ``files`` with options of ``truneg evaluate``."""
    options = with_dashes(asked) if isinstance(asked, dict) else {"files": asked}
    files = options.pop("files", "valid" if name == "held-out" else [])
    options = {option.replace("-", "_"): value for option, value in options.items()}
    content = {"name": name, "files": [files] if isinstance(files, str) else files, **options}
    task = convert(
        content, f"{path}: evaluations.{name}", Task, expected="FILE, or files and options of truneg evaluate"
    )
    # The masked positions are the same for all arms and seeds.
    return replace(task, mask_seed=1) if name == "held-out" and task.mask_seed is None else task


def _check(path: Path, experiment: Experiment, only: Sequence[str]) -> None:
    model, arms = experiment.model, ", ".join(experiment.arms)
    cases = [(not (model.arch or model.checkpoint), f"{path}: model: has neither arch nor checkpoint; expected one")]
    named = [("--only", arm) for arm in only] + [(f"{path}: control:", arm) for arm in [experiment.control] if arm]
    for name, part in experiment.evaluations.finetune.items():
        named += [(f"{path}: evaluations.finetune.{name}.arms:", arm) for arm in part.arms or ()]
        for task in part.tasks:
            TASKS.look_up(task, f"{path}: evaluations.finetune.{name}.tasks:")
        where = f"{path}: evaluations.finetune.{name}.options: has"
        own = sorted(_OWN_OF_FINETUNING & with_dashes(part.options).keys())
        cases += [(True, f"{where} {option!r}, which the experiment sets; expected other options") for option in own]
    cases += [(arm not in experiment.arms, f"{where} {arm}: expected some of {arms}") for where, arm in named]
    for arm in experiment.arms if experiment.evaluations.electra else ():
        criterion, expected = experiment.options_of(arm).get("criterion"), "electra (held-out measures a masked LM)"
        found = f"{path}: evaluations.electra: arm {arm} has the criterion {criterion}; expected {expected}"
        cases.append((criterion != "electra", found))
    refuse(*cases)


def _check_files(path: Path, experiment: Experiment) -> None:
    """Before hours of training: what is named has to be there."""
    named: dict[str, Path | None] = {"data": experiment.data, "model.checkpoint": experiment.model.checkpoint}
    for arm, treatment in experiment.arms.items():
        named[f"arms.{arm}.synonym_table"] = treatment.synonym_table
        named |= {f"arm {arm}, {option}": file for option, file in experiment.files_of(arm).items()}
    splits = {name: part.split for name in ("electra", "generation") if (part := getattr(experiment.evaluations, name))}
    for name, task in experiment.evaluations.tasks.items():
        named[f"evaluations.{name}.synonym-table"] = task.synonym_table
        for file in task.files:
            if name == "held-out" and not Path(file).exists():
                splits[name] = file
            else:
                named[f"evaluations.{name} {file}"] = Path(file)
    for name, split in splits.items():
        of_languages = sorted(experiment.data.glob(f"{split}.*-*.idx"))  # of a translation
        named[f"evaluations.{name} {split}"] = [*of_languages, experiment.data / f"{split}.idx"][0]
    for name, part in experiment.evaluations.finetune.items():
        named |= {f"evaluations.finetune.{name}, {task}": part.prepared / task for task in part.tasks}
    needed = {name: file for name, file in named.items() if file is not None}
    refuse(*((not file.exists(), f"{path}: {name}: {file}: no such file or folder") for name, file in needed.items()))
