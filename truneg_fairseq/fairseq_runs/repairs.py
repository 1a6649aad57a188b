"""The repairs that fairseq needs to run this package's jobs, applied when ``--user-dir`` imports the package.

Each names its cause where it is defined (:func:`apply`).
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import sys
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.data import LRUCacheDataset, MaskTokensDataset
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar
from fairseq.models import distributed_fairseq_model
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.tasks import FairseqTask, masked_lm
from hydra.core.hydra_config import HydraConfig
from torch import Tensor
from torch.multiprocessing import ProcessExitedException
from torch.nn.parallel import DistributedDataParallel

from ..errors import TrueNegError, installed_version, one_line_errors
from . import fairseq_trainer as trainer
from . import preflight, saving, stopping
from .folder import add_line


def apply() -> None:
    """Applies every repair, once."""
    if checkpoint_utils.PathManager is CopiesAtOnce:  # patching twice would wrap the wrappers
        return
    if sys.argv[0].endswith(stopping.PROGRAMS):  # before there is anything to save
        stopping.REQUEST.listen()
    _check_version()
    if not hasattr(np, "compat"):  # recent numpy has none; --sample-break-mode eos uses numpy.compat.long
        np.compat = types.SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]
    _allow_checkpoint_classes()
    start_trainings()
    start_trainings_of_hydra()
    distributed_fairseq_model.DistributedDataParallel = DistributedDataParallelOnCpu
    checkpoint_utils.PathManager = CopiesAtOnce
    write_metrics()
    masked_lm.MaskTokensDataset = EpochAwareMaskTokensDataset
    FairseqTask.args = _FormerName()
    save_fp32_copies()
    atexit.register(stopping.end_readers)


def _check_version() -> None:
    """Refuses any fairseq but the supported one: plain 0.12.2 has other checkpoints and another hydra."""
    found = installed_version("fairseq-fixed")
    if found is None or not found.startswith("0.12.3"):
        what = f"fairseq-fixed {found}" if found else "another fairseq"
        raise TrueNegError(
            f"found {what}, expected fairseq-fixed 0.12.3.x; run: pip uninstall -y fairseq fairseq-fixed; "
            "pip install --no-build-isolation 'fairseq-fixed==0.12.3.1' (after torch)"
        )


def _allow_checkpoint_classes() -> None:
    """torch >= 2.6 loads with weights_only, which refuses the harmless classes in fairseq's checkpoints."""
    from fairseq.distributed.utils import _TensorPlaceholder
    from numpy._core.multiarray import scalar
    from omegaconf import DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata
    from omegaconf.nodes import AnyNode

    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,  # fairseq-train's arguments
            scalar,  # a best metric that is a numpy value
            *(np.dtype, type(np.dtype(np.float64)), type(np.dtype(np.float32))),
            # What several workers exchange when the first one reads a checkpoint.
            *(DictConfig, ListConfig, AnyNode, Metadata, ContainerMetadata),
            *(typing.Any, defaultdict, list, dict, int, _TensorPlaceholder),
        ]
    )


def start_trainings() -> None:
    """Has ``call_main`` start trainings with :class:`PluginTrainer`, of options that fit together, also on CPUs.

    fairseq accepts wrong options, or ends in tracebacks. Without a GPU its torchrun gives independent jobs in one
    folder, or a division by the number of GPUs, and its spawn starts no process. The process that has spawned workers
    adds its traceback to a worker's one-line error, and loses its exit code.
    """
    stock = distributed_utils.call_main

    def call_main(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        job = cfg.distributed_training
        on_cpu = not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())
        with one_line_errors():
            # fairseq's commands all call their function "main"; with python -m the module is "__main__".
            if Path(main.__code__.co_filename).parts[-2:] == ("fairseq_cli", "train.py"):
                if int(os.environ.get("RANK", "0")) == 0:  # torchrun ends all workers with the first one
                    preflight.check(cfg)
                main = functools.partial(_train, main)
                if not on_cpu and _spawns_workers(job):
                    stopping.forward_to_workers()
            if on_cpu:
                _join_torchrun(job)
            try:
                result = stock(cfg, main, **kwargs)
                if on_cpu and torch.distributed.is_initialized():  # gloo's threads could abort Python's exit
                    torch.distributed.destroy_process_group()
                return result
            except ProcessExitedException as error:
                if error.exit_code >= 0:
                    raise SystemExit(error.exit_code) from None
                killed = f"worker {error.error_index} was ended by {stopping.signal_name(-error.exit_code)}"
                raise SystemExit(f"truneg_fairseq: error: {killed}; see what sent it (out of memory?)") from None
            except KeyboardInterrupt:
                raise SystemExit(130) from None

    distributed_utils.call_main = call_main


def _train(main: Callable[..., Any], cfg: Any) -> None:
    """fairseq's ``main``, which finds its Trainer there, in a spawned worker too."""
    main.__globals__["Trainer"] = trainer.PluginTrainer
    try:
        main(cfg)
    finally:
        stopping.REQUEST.forget()


def _started_by_torchrun() -> bool:
    return all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"))


def _spawns_workers(job: Any) -> bool:
    """Whether this process only waits for workers of its own on GPUs; one of several tasks of srun trains itself."""
    tasks, nodes = (int(os.environ.get(f"SLURM_STEP_NUM_{name}", "1")) for name in ("TASKS", "NODES"))
    trains = job.distributed_no_spawn or _started_by_torchrun() or tasks > nodes
    return bool(job.distributed_world_size > 1 and not trains)


def _join_torchrun(job: Any) -> None:
    """Joins torchrun's other processes on CPUs; the code of fairseq that does so counts GPUs."""
    if job.distributed_backend == "nccl":
        job.distributed_backend = "gloo"
    if job.distributed_init_method is None and _started_by_torchrun():
        job.distributed_init_method, job.distributed_no_spawn, job.device_id = "env://", True, 0
        job.distributed_world_size, job.distributed_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    workers, meeting = job.distributed_world_size, job.distributed_init_method
    if (workers > 1 or meeting) and not (job.distributed_no_spawn and meeting):
        raise TrueNegError(
            f"--distributed-world-size {workers}: expected torchrun, which starts the workers on CPUs: torchrun "
            f"--nproc_per_node {workers} -m fairseq_cli.train DATA-BIN ..."
        )


def start_trainings_of_hydra() -> None:
    """hydra imports the package in ``main``, when ``call_main`` is past: the task's set-up comes next."""
    train = sys.modules.get("fairseq_cli.train")
    if train is not None:
        train.Trainer = trainer.PluginTrainer  # type: ignore[attr-defined]
    stock = tasks.setup_task

    def setup_task(cfg: Any, **kwargs: Any) -> Any:
        whole = cfg._get_parent() if hasattr(cfg, "_get_parent") else None
        if HydraConfig.initialized() and whole is not None and "checkpoint" in whole and not kwargs:
            with one_line_errors():
                preflight.check(whole)
        return stock(cfg, **kwargs)

    tasks.setup_task = setup_task


class CopiesAtOnce(checkpoint_utils.PathManager):
    """fairseq copies checkpoints in place: a kill or a full disk leaves a checkpoint_last.pt that cannot be read."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        with one_line_errors():
            saving.copy(Path(src_path), Path(dst_path))
        return True


def write_metrics() -> None:
    """fairseq keeps no record of what it measures, unless a flag asks for one: a progress bar, as its loggers are."""
    stock: Callable[..., Any] = progress_bar.progress_bar

    def measured_bar(*args: Any, epoch: int | None = None, prefix: str | None = None, **kwargs: Any) -> Any:
        bar, folder = stock(*args, epoch=epoch, prefix=prefix, **kwargs), trainer.PluginTrainer.measured
        if folder is None:
            return bar

        def measured(
            show: Callable[..., None], kind: str, stats: Any, tag: Any = None, step: int | None = None
        ) -> None:
            shown = {name: progress_bar.format_stat(value) for name, value in stats.items() if name != "num_updates"}
            # sentence_prediction logs its predictions too, as an empty list; a mean of nothing is None.
            values = {name: float(value) for name, value in shown.items() if isinstance(value, str | int | float)}
            subset = tag if kind == "valid" else None
            add_line(folder, kind=kind, epoch=epoch, num_updates=step, subset=subset, values=values)
            show(stats, tag=tag, step=step)

        bar.log = functools.partial(measured, bar.log, "train")
        bar.print = functools.partial(measured, bar.print, "epoch" if prefix is None else "valid")
        return bar

    progress_bar.progress_bar = measured_bar


class DistributedDataParallelOnCpu(DistributedDataParallel):
    """torch's refuses the device ids that fairseq gives it for a module on the CPU."""

    def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if all(parameter.device.type == "cpu" for parameter in module.parameters()):
            kwargs["device_ids"] = kwargs["output_device"] = None
        super().__init__(module, *args, **kwargs)


class EpochAwareMaskTokensDataset(MaskTokensDataset):
    """Keeps the epoch in shared memory, where the reading processes see it.

    ``masked_lm`` keeps these processes for all epochs and tells them of none: every epoch has the masks of the one in
    which they were started, and a resumed run other masks. Items that were read last stay in a cache without epochs.
    """

    @classmethod
    def apply_mask(cls, dataset: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Source and target. Stock wraps both in a cache by index; the masking has one by seed, epoch and index."""
        dataset = LRUCacheDataset(dataset)
        source = cls(dataset, *args, **kwargs, return_masked_tokens=False)
        return source, cls(dataset, *args, **kwargs, return_masked_tokens=True)

    @property
    def epoch(self) -> int:
        """Counts from 1."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if not hasattr(self, "_epoch"):
            self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._epoch.fill_(epoch)


class _FormerName:
    """translation_from_pretrained_bart reads its options as ``task.args``, a name from before hydra."""

    def __get__(self, task: Any, kind: type[Any]) -> Any:
        return task.cfg  # tasks that set ``args`` themselves have their own


_COPIES = "fp32_parameters"  # of an optimizer's state, beside the wrapped optimizer's own


def save_fp32_copies() -> None:
    """fairseq trains fp32 copies of 16-bit parameters, and saves the 16 bits only: a run that continues begins with
    rounded weights. (Memory-efficient fp16 and bf16 have no copies.) Copies of other weights than were saved with them
    (averaged, or of another precision) stay what they are.
    """
    stock_state_dict, stock_load_state_dict = _FP16OptimizerMixin.state_dict, _FP16OptimizerMixin.load_state_dict

    def state_dict(self: Any) -> dict[str, Any]:
        return {**stock_state_dict(self), _COPIES: [copy.detach() for copy in _copies(self)]}

    def load_state_dict(
        self: Any, state_dict: Mapping[str, Any], optimizer_overrides: Mapping[str, Any] | None = None
    ) -> None:
        state = dict(state_dict)
        saved = state.pop(_COPIES, [])
        stock_load_state_dict(self, state, optimizer_overrides)
        copies, dtype = _copies(self), self.fp16_params[0].dtype
        if [copy.shape for copy in copies] == [value.shape for value in saved]:
            for copy, value in zip(copies, saved, strict=True):
                exact = value.to(copy.device)
                copy.data = torch.where(exact.to(dtype).eq(copy.to(dtype)), exact, copy.data)

    _FP16OptimizerMixin.state_dict, _FP16OptimizerMixin.load_state_dict = state_dict, load_state_dict


def _copies(optimizer: Any) -> list[Tensor]:
    """One tensor per parameter, or one flat tensor per device (without ``--fp16-no-flatten-grads``)."""
    copies = optimizer.fp32_params
    return list(copies.values() if isinstance(copies, dict) else copies)
