"""fairseq-train, called from this package: in the process of a run (:mod:`.process`), or in this one."""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import TrueNegError

FP16_FLAGS = ("--fp16", "--fp16-no-flatten-grads")


def start_fairseq() -> None:
    """Imports fairseq and registers the package."""
    from .. import register

    register()


def check_precision(precision: str, *, cpu: bool) -> None:
    """Refuses fp16 without a GPU: where a gradient overflows, as it does now and then, fairseq's trainer needs one."""
    import torch

    if precision == "fp16" and (cpu or not torch.cuda.is_available()):
        where = "--cpu" if cpu else "no GPU"
        raise TrueNegError(f"--precision fp16: found {where}; expected a GPU; use bf16 or fp32 on the CPU")


def train(flags: Sequence[str], *, precision: str = "fp32") -> None:
    """fairseq-train with these flags; it continues where a run in its folder was interrupted.

    Its own ``--bf16`` asks for a TPU, hence the argument.
    """
    log_as_fairseq()
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils
    from fairseq_cli import train as fairseq_train

    words = ["--user-dir", str(Path(__file__).resolve().parents[1]), *flags]
    words += FP16_FLAGS if precision == "fp16" else ()
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


def quiet_fairseq() -> None:
    """Keeps fairseq from logging every step of loading a checkpoint."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)


def peak_memory_mb(*, cpu: bool, workers: int) -> float | None:
    """Peak memory in MB of a training in this process: reserved by torch on the GPU, or else main memory.

    fairseq resets torch's peak in every step; what torch has reserved it does not give back. Main memory is that of the
    largest of its processes. Of several workers on GPUs, which are processes of their own, it is not known: None.
    """
    import torch

    if not cpu and torch.cuda.is_available():
        return torch.cuda.memory_reserved() / 1e6 if workers == 1 else None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB on Linux
    peaks = [resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return max(peaks) * unit / 1e6
