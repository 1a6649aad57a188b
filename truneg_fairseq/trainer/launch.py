"""How a training starts: fairseq's ``call_main``, and what hydra calls in its place."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks
from fairseq.distributed import utils as distributed_utils
from hydra.core.hydra_config import HydraConfig
from torch.multiprocessing import ProcessExitedException
from torch.nn.parallel import DistributedDataParallel

from ..errors import TrueNegError, one_line_errors, reason
from . import preflight, stopping
from .trainer import PluginTrainer


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
    """fairseq's ``main``, which finds its Trainer there, in a spawned worker too; a package it lacks is one line."""
    main.__globals__["Trainer"] = PluginTrainer
    try:
        main(cfg)
    except ImportError as error:
        if "install" not in str(error):
            raise
        raise SystemExit(f"truneg_fairseq: error: fairseq: {reason(error)}") from None


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
        train.Trainer = PluginTrainer  # type: ignore[attr-defined]
    stock = tasks.setup_task

    def setup_task(cfg: Any, **kwargs: Any) -> Any:
        whole = cfg._get_parent() if hasattr(cfg, "_get_parent") else None
        if HydraConfig.initialized() and whole is not None and "checkpoint" in whole and not kwargs:
            with one_line_errors():
                preflight.check(whole)
        return stock(cfg, **kwargs)

    tasks.setup_task = setup_task


class DistributedDataParallelOnCpu(DistributedDataParallel):
    """torch's refuses the device ids that fairseq gives it for a module on the CPU."""

    def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if all(parameter.device.type == "cpu" for parameter in module.parameters()):
            kwargs["device_ids"] = kwargs["output_device"] = None
        super().__init__(module, *args, **kwargs)
