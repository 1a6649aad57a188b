"""An experiment's file: YAML, read by OmegaConf, its types checked by msgspec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..errors import TrueNegError, reason
from ..schema import convert, read_bytes

Value = bool | int | float | str | list[int | float | str] | None
"""Of an option: true for the flag alone; false and null leave it out, also one that all arms have."""

Options = dict[str, Value]
"""By the flags' names, without the dashes in front."""

_Count = Annotated[int, Meta(ge=1)]
_Share = Annotated[float, Meta(gt=0, le=1)]
_Name = Annotated[str, Meta(pattern=r"^\w[\w.+-]*$", max_length=80)]
_EXPECTED = "an experiment (see docs/experiments.md)"
_OWN = {
    **{
        "seed": "seeds",
        "max-update": "updates",
        "save-dir": "--output",
        "cpu": "--cpu",
        "synonym-table": "synonym_table",
    },
    **{"finetune-from-model": "model.checkpoint", "restore-file": "model.checkpoint", "arch": "model.arch"},
    **dict.fromkeys(("fp16", "bf16", "memory-efficient-fp16", "memory-efficient-bf16", "amp"), "precision"),
    **dict.fromkeys(("max-epoch", "stop-time-hours", "stop-min-lr", "patience"), "updates"),
    **dict.fromkeys(("disable-validation", "valid-subset"), "evaluations.electra"),
    **dict.fromkeys(
        ("user-dir", "log-format", "no-epoch-checkpoints", "keep-interval-updates", "no-save"), "the experiment"
    ),
    **dict.fromkeys(("num-workers", "distributed-world-size", "log-file", "tensorboard-logdir"), "the experiment"),
    # A training in parts continues from its last checkpoint.
    **dict.fromkeys(("no-save-optimizer-state", "no-last-checkpoints", "checkpoint-suffix"), "the experiment"),
    **dict.fromkeys(("reset-optimizer", "reset-lr-scheduler", "reset-meters", "reset-dataloader"), "the experiment"),
    **dict.fromkeys(("optimizer-overrides", "continue-once"), "the experiment"),
}
_OWN_OF_FINETUNING = {
    **{"seeds": "seeds", "seed": "seeds", "tasks": "tasks", "data": "data", "cpu": "--cpu", "output": "--output"},
    **dict.fromkeys(("checkpoint", "model", "name", "results", "num-workers"), "the experiment"),
}

_FILE_OPTIONS = (
    *("gpt2-encoder-json", "hc-acceptance-model"),
    *("synonym-exclude", "synonym-thesaurus", "synonym-tsv", "synonym-vectors"),
)

_TOLD_ITS_UPDATES, _ENDLESS = ("polynomial_decay", "electra_linear"), ("fixed", "inverse_sqrt")
"""Schedules of the learning rate that do not depend on --max-update."""


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is trained."""

    checkpoint: Path | None = None  # fairseq's, to continue from; None to start from scratch
    arch: str | None = None  # fairseq-train's architecture; None for the checkpoint's, with its sizes
    options: Options = {}  # of the architecture


class Arm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One treatment."""

    options: Options = {}  # of fairseq-train, beside and instead of those of all arms
    synonym_table: Path | None = None  # of the criterion; None for the one beside the data
    seeds: _Count | None = None  # the last seed that it is trained with; None for the experiment's


class HeldOut(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``truneg inspect``: loss, accuracy, calibration, rates of Table 2; the same masks for all arms and seeds."""

    split: str = "valid"  # of the data
    mask_seed: int = 1  # of the masked positions
    batch_size: _Count = 32  # sequences
    synonym_table: Path | None = None  # of the rates; None for the one beside the data
    # shares of the updates, in (0, 1], after which a training's model is kept and measured too (Table 2)
    at: list[_Share] = []


class Electra(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``--criterion electra`` logs of generator and discriminator when fairseq-train validates at the end.

    The arms of a seed have the same masks; what the discriminator sees is what the arm's own generator samples.
    """

    split: str = "valid"  # of the data


class Lexsub(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``truneg lexsub``."""

    judgements: Path  # the file


class Glue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``truneg glue train``; the mean over its seeds counts."""

    data: Path  # the folder that ``truneg data prepare-glue`` made
    tasks: Annotated[list[str], Meta(min_length=1)]  # GLUE's names
    seeds: _Count = 5  # of the fine-tuning, 1 to this
    options: Options = {}  # of the command: epochs, lr, max-length ..
    arms: list[str] | None = None  # the arms that it is for; None for all


class Attack(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of attacked questions: Jia and Liang's, or one of ``truneg attack squad`` with its original and pairs."""

    data: Path  # the attacked questions
    original: Path | None = None  # None for Jia and Liang's files
    pairs: Path | None = None  # None for Jia and Liang's files


class Squad(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``truneg squad train``, and the attacks; the mean over its seeds counts.

    Attributes:
        seeds, options, arms: see :class:`Glue`.
    """

    data: Path  # the folder that ``truneg data prepare-squad`` made
    seeds: _Count = 1
    options: Options = {}
    arms: list[str] | None = None
    attacks: dict[_Name, Attack] = {}  # by their names


class Evaluations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is measured of every trained model; None is not."""

    held_out: HeldOut | None = None
    electra: Electra | None = None
    lexsub: Lexsub | None = None
    glue: Glue | None = None
    squad: Squad | None = None


class Experiment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    title: str = "Experiment"  # of the report
    paths: dict[str, str] = {}  # named for use in the rest of the file, as ``${paths.data}``
    data: Path  # folder of binarized data
    model: Model  # what is trained
    training: Options  # fairseq-train's options for all arms
    precision: Annotated[str, Meta(pattern="^(fp32|fp16|bf16)$")] = "fp32"  # fp32, fp16 or bf16
    updates: _Count  # of every training
    first_seed: _Count = 1  # of every arm; above 1 to train new seeds alone
    seeds: _Count = 1  # the last seed of every arm, which has all from the first one to this
    # by their names; the first is what the others are compared with
    arms: Annotated[dict[_Name, Arm], Meta(min_length=1)]
    evaluations: Evaluations = Evaluations()  # see :class:`Evaluations`

    def seeds_of(self, arm: str) -> range:
        """The seeds that an arm is trained with."""
        return range(self.first_seed, (self.arms[arm].seeds or self.seeds) + 1)

    @property
    def milestones(self) -> list[int]:
        """The numbers of updates after which models are kept, the last one with all updates."""
        held_out = self.evaluations.held_out
        shares = held_out.at if held_out else []
        return sorted({max(1, round(share * self.updates)) for share in shares} | {self.updates})

    def options_of(self, arm: str) -> Options:
        """fairseq-train's options of an arm, by their flags' names with dashes; files with their whole paths."""
        options = self._options_of(arm)
        return options | {name: str(path.resolve()) for name, path in self.files_of(arm).items()}

    def files_of(self, arm: str) -> dict[str, Path]:
        """The files that an arm's options name, by the options."""
        options = self._options_of(arm)
        return {name: Path(str(options[name])) for name in _FILE_OPTIONS if options.get(name)}

    def _options_of(self, arm: str) -> Options:
        return with_dashes(self.training) | with_dashes(self.model.options) | with_dashes(self.arms[arm].options)


def with_dashes(options: Options) -> Options:
    """Options by their flags' names: ``weight_decay`` is ``weight-decay``."""
    return {name.replace("_", "-"): value for name, value in options.items()}


def flags_of(options: Options) -> list[str]:
    """Options as a command line has them."""
    flags: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        values = [] if value is True else value if isinstance(value, list) else [value]
        flags += [f"--{name}", *map(str, values)]
    return flags


def read_experiment(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """Reads an experiment's file.

    Args:
        path: YAML with OmegaConf's interpolations, such as ``${oc.env:DATA}`` or ``${paths.data}``.
        overrides: what takes the place of values, as ``updates=10`` or ``paths.data=/data``.
    """
    content = _read_yaml(path, overrides)
    experiment = convert(content, str(path), Experiment, expected=_EXPECTED)
    _check(path, experiment)
    return experiment


def _read_yaml(path: Path, overrides: Sequence[str]) -> Mapping[str, Any]:
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    text = read_bytes(path, expected=_EXPECTED)
    for override in overrides:
        if "=" not in override:
            raise TrueNegError(f"--set {override}: expected NAME=VALUE, such as updates=10")
        try:
            OmegaConf.from_dotlist([override])
        except (OmegaConfBaseException, YAMLError, RecursionError) as error:
            raise TrueNegError(f"--set {override}: {_told(error)}; expected NAME=VALUE, such as updates=10") from None
    try:
        read = OmegaConf.create(text.decode())
        if not isinstance(read, DictConfig):
            raise TrueNegError(f"{path}: is no mapping of names to values; expected {_EXPECTED}")
        merged = OmegaConf.merge(read, OmegaConf.from_dotlist(list(overrides)))
        found: Any = OmegaConf.to_container(merged, resolve=True, throw_on_missing=True)
    except AssertionError:  # OmegaConf's, for a number alone
        raise TrueNegError(f"{path}: is no mapping of names to values; expected {_EXPECTED}") from None
    except (OmegaConfBaseException, YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise TrueNegError(f"{path}: {_told(error)}; expected {_EXPECTED}") from None
    return dict(found)


def _told(error: BaseException) -> str:
    key = getattr(error, "full_key", None)
    if type(error).__name__ == "MissingMandatoryValue" and key:
        return f"{key} has no value; give it one there, or with --set {key}=..."
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"line {mark.line + 1} is no YAML ({getattr(error, 'problem', None) or 'it breaks off'})"
    first = reason(error).splitlines()
    return (f"{key}: " if key else "") + "; ".join(line.strip() for line in first[:3] if "object_type=" not in line)


def _check(path: Path, experiment: Experiment) -> None:
    _check_options(path, experiment)
    if experiment.model.arch is None and experiment.model.checkpoint is None:
        raise TrueNegError(f"{path}: model: has neither arch nor checkpoint; expected one of them")
    require_seeds(path, experiment, next(iter(experiment.arms)))
    for arm in experiment.arms if experiment.evaluations.electra else ():
        criterion = experiment.options_of(arm).get("criterion")
        if criterion != "electra":
            raise TrueNegError(
                f"{path}: evaluations.electra: arm {arm} has the criterion {criterion}; expected electra (held_out "
                "measures a masked LM)"
            )
    glue = experiment.evaluations.glue
    if glue and len(set(glue.tasks)) < len(glue.tasks):
        raise TrueNegError(f"{path}: evaluations.glue.tasks: has a task twice; expected each once")
    for part in ("glue", "squad"):
        evaluation = getattr(experiment.evaluations, part)
        for arm in (evaluation.arms or ()) if evaluation else ():
            if arm not in experiment.arms:
                raise TrueNegError(
                    f"{path}: evaluations.{part}.arms: has {arm!r}; expected some of {', '.join(experiment.arms)}"
                )
    squad = experiment.evaluations.squad
    for name, attack in squad.attacks.items() if squad else ():
        if (attack.original is None) != (attack.pairs is None):
            raise TrueNegError(
                f"{path}: evaluations.squad.attacks.{name}: expected both original and pairs, or neither"
            )
    for arm in experiment.arms if len(experiment.milestones) > 1 else ():
        _check_schedule(path, arm, experiment.options_of(arm))
    _check_files(path, experiment)


def require_seeds(path: Path, experiment: Experiment, arm: str) -> None:
    """Refuses an arm whose seeds end before the first one."""
    if not experiment.seeds_of(arm):
        last = experiment.arms[arm].seeds or experiment.seeds
        raise TrueNegError(
            f"{path}: first_seed: is {experiment.first_seed}, and the seeds of arm {arm} end with {last}; expected no "
            f"more than that, or a higher last seed, as with --set arms.{arm}.seeds={experiment.first_seed}"
        )


def _check_options(path: Path, experiment: Experiment) -> None:
    """Refuses options that the experiment sets itself."""
    evaluations = experiment.evaluations
    trained = {"training": experiment.training, "model.options": experiment.model.options}
    trained |= {f"arms.{name}.options": arm.options for name, arm in experiment.arms.items()}
    finetuned = {
        f"evaluations.{name}.options": part.options
        for name, part in (("glue", evaluations.glue), ("squad", evaluations.squad))
        if part
    }
    for parts, own in ((trained, _OWN), (finetuned, _OWN_OF_FINETUNING)):
        for where, options in parts.items():
            for name in with_dashes(options):
                if name in own:
                    raise TrueNegError(f"{path}: {where}: has {name!r}, which {own[name]} sets; expected other options")


def _check_schedule(path: Path, arm: str, options: Options) -> None:
    """A training in parts has another --max-update in each, which must not change the learning rate."""
    scheduler = options.get("lr-scheduler", "fixed")
    told = scheduler in _TOLD_ITS_UPDATES and "total-num-update" in options
    if not told and scheduler not in _ENDLESS:
        raise TrueNegError(
            f"{path}: evaluations.held_out.at: arm {arm} is trained in parts, and its lr-scheduler {scheduler} would "
            f"end with each; expected {' or '.join(_TOLD_ITS_UPDATES)} with total-num-update: ${{updates}}, or "
            f"{' or '.join(_ENDLESS)}"
        )


def _check_files(path: Path, experiment: Experiment) -> None:
    """Before hours of training: what is named has to be there."""
    evaluations = experiment.evaluations
    folders: dict[str, Path | None] = {"data": experiment.data}
    files: dict[str, Path | None] = {"model.checkpoint": experiment.model.checkpoint}
    files |= {f"arms.{name}.synonym_table": arm.synonym_table for name, arm in experiment.arms.items()}
    files |= {f"arm {arm}, {name}": file for arm in experiment.arms for name, file in experiment.files_of(arm).items()}
    for part in ("held_out", "electra"):
        if found := getattr(evaluations, part):
            files[f"evaluations.{part}.split"] = experiment.data / f"{found.split}.idx"
    if evaluations.held_out:
        files["evaluations.held_out.synonym_table"] = evaluations.held_out.synonym_table
    if evaluations.lexsub:
        files["evaluations.lexsub.judgements"] = evaluations.lexsub.judgements
    if evaluations.glue:
        folders |= {f"evaluations.glue.data, {name}": evaluations.glue.data / name for name in evaluations.glue.tasks}
    if evaluations.squad:
        folders["evaluations.squad.data"] = evaluations.squad.data
        for name, attack in evaluations.squad.attacks.items():
            for part in ("data", "original", "pairs"):
                files[f"evaluations.squad.attacks.{name}.{part}"] = getattr(attack, part)
    for name, folder in folders.items():
        if folder is not None and not folder.is_dir():
            raise TrueNegError(f"{path}: {name}: {folder}: no such folder")
    for name, file in files.items():
        if file is not None and not file.is_file():
            raise TrueNegError(f"{path}: {name}: {file}: no such file")
