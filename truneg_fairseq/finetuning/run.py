"""Runs fairseq-train from another command: fine-tuning of a checkpoint, in this process."""

from __future__ import annotations

import json
import logging
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TrueNegError
from ..files import make_output_folder, replacing_text
from ..vocabulary import fingerprint, read_symbols

if TYPE_CHECKING:
    from ..convert.checkpoints import Checkpoint

SETTINGS_NAME = "settings.json"
PRECISIONS = ("fp32", "fp16", "bf16")
_LARGE = 1024


def start_fairseq() -> None:
    """Imports fairseq and registers the package."""
    from .. import register

    register()


def model_flags(checkpoint: Checkpoint) -> tuple[str, ...]:
    """fairseq-train's flags for the architecture of a checkpoint of a bert or electra model.

    Raises:
        TrueNegError: another model.
    """
    from ..convert.config import architecture_flags, config_of_arguments

    rows = len(checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight", ()))
    config = config_of_arguments(checkpoint.model, rows, checkpoint.path)
    if config.family.name == "roberta":
        name = checkpoint.model.get("arch") or checkpoint.model.get("_name")
        raise TrueNegError(f"{checkpoint.path}: its architecture is {name!r}; expected a bert or electra model")
    return architecture_flags(config)


def is_large(checkpoint: Checkpoint) -> bool:
    """Whether ELECTRA's settings for large models are meant for it."""
    weight = checkpoint.state["encoder.sentence_encoder.layers.0.fc1.weight"]
    return int(weight.shape[1]) >= _LARGE


def check_precision(precision: str, *, cpu: bool) -> None:
    """Refuses fp16 without a GPU: where a gradient overflows, as it does now and then, fairseq's trainer needs one.

    Raises:
        TrueNegError: fp16 on the CPU.
    """
    import torch

    if precision == "fp16" and (cpu or not torch.cuda.is_available()):
        where = "--cpu" if cpu else "no GPU"
        raise TrueNegError(f"--precision fp16: found {where}; expected a GPU; use bf16 or fp32 on the CPU")


def check_vocabulary(checkpoint: Checkpoint, expected: str, data: Path) -> None:
    """Refuses a checkpoint that was trained on data of another dictionary; passes one whose data are not here.

    Args:
        checkpoint: the pre-trained model.
        expected: fingerprint of the dictionary of the data for fine-tuning.
        data: their folder.

    Raises:
        TrueNegError: another dictionary.
    """
    from ..squad.task import check_vocabulary as check

    folder = Path(str(checkpoint.task.get("data", "")).split(":")[0])
    dictionary = next((path for path in (folder / "dict.txt", folder / "input0/dict.txt") if path.is_file()), None)
    if checkpoint.task.get("data") and dictionary is not None:
        check(fingerprint(read_symbols(dictionary)), expected, str(data))


def keep_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Notes in a run's folder how it is made; a run goes on only with the same settings.

    Raises:
        TrueNegError: the folder has a run with other settings, or cannot be written.
    """
    make_output_folder(folder)
    path = folder / SETTINGS_NAME
    if not path.exists():
        with replacing_text(path) as stream:
            json.dump(settings, stream, indent=1)
        return
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise TrueNegError(f"{path}: cannot be read; remove the folder or choose another --output") from None
    for name, value in settings.items():
        if found.get(name) != value:
            raise TrueNegError(
                f"--output {folder}: has a run with {name} {found.get(name)}, expected {value}; give the same options "
                "to continue it, or choose another folder"
            )


def train(flags: Sequence[str | Path | int | float], *, precision: str = "fp32") -> None:
    """fairseq-train with these flags; it continues where a run in its folder was interrupted.

    Args:
        flags: of its command line.
        precision: one of :data:`PRECISIONS`; its own ``--bf16`` asks for a TPU.

    Raises:
        SystemExit: with one line, by the package's criterions: the loss or its gradient is no longer a number.
    """
    log_as_fairseq()
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils
    from fairseq_cli import train as fairseq_train

    words = [str(flag) for flag in flags]
    if precision == "fp16":
        words += ["--fp16", "--fp16-no-flatten-grads"]
    words = ["--user-dir", str(Path(__file__).resolve().parents[1]), *words]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    cfg.common.bf16 = precision == "bf16"
    distributed_utils.call_main(cfg, fairseq_train.main)


def log_as_fairseq() -> None:
    """fairseq-train's log, on stdout: its set-up does nothing where logging is set up already."""
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,
    )


def peak_memory_mb(*, cpu: bool) -> float:
    """What this process has used at most, in MB: of the GPU what torch has reserved, else of the main memory.

    fairseq resets torch's peak in every step; what torch has reserved it does not give back.
    """
    import torch

    if not cpu and torch.cuda.is_available():
        return torch.cuda.memory_reserved() / 1e6
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
