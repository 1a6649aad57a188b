"""Repairs of fairseq for data-parallel workers on the CPU.

``_launch_cpu_workers``
    Without a GPU fairseq starts no data-parallel workers: torchrun without --distributed-world-size gives independent
    jobs in one folder, with it a division by the number of GPUs, and its own spawn starts no process. The backend is
    nccl whatever the device. Nobody leaves the group of workers when the work is done.
``_gather_lists_on_cpu``
    Logs that are not sums are gathered through a buffer on the GPU, whatever the device.
``_wrap_cpu_models``
    torch's DistributedDataParallel refuses the device ids that fairseq gives it for a module on the CPU.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from ..errors import TrueNegError, one_line_errors


def apply() -> None:
    """Applies them."""
    _launch_cpu_workers()
    _gather_lists_on_cpu()
    _wrap_cpu_models()


def _launch_cpu_workers() -> None:
    from fairseq.distributed import utils as distributed_utils

    stock_call_main = distributed_utils.call_main

    def call_main(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        if not _runs_on_cpu(cfg):
            return stock_call_main(cfg, main, **kwargs)
        job = cfg.distributed_training
        _choose_gloo(job)
        if job.distributed_init_method is None and _started_by_torchrun():
            _join_torchrun(job)
        spawns = job.distributed_world_size > 1 or job.distributed_init_method is not None
        if spawns and not job.distributed_no_spawn:
            with one_line_errors():
                return _spawn(cfg, main, kwargs)
        result = stock_call_main(cfg, main, **kwargs)
        _leave_group()
        return result

    distributed_utils.call_main = call_main


def _runs_on_cpu(cfg: Any) -> bool:
    import torch

    return not cfg.common.tpu and (cfg.common.cpu or not torch.cuda.is_available())


def _choose_gloo(job: Any) -> None:
    if job.distributed_backend == "nccl":
        job.distributed_backend = "gloo"


def _started_by_torchrun() -> bool:
    return all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"))


def _join_torchrun(job: Any) -> None:
    job.distributed_init_method = "env://"
    job.distributed_world_size = int(os.environ["WORLD_SIZE"])
    job.distributed_rank = int(os.environ["RANK"])
    job.distributed_no_spawn = True
    job.device_id = 0


def _leave_group() -> None:
    import torch

    if torch.distributed.is_initialized():
        # gloo's threads would otherwise run into Python's exit, which can abort there.
        torch.distributed.destroy_process_group()


def _spawn(cfg: Any, main: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    import torch
    from fairseq.distributed.utils import distributed_main
    from omegaconf import open_dict

    job = cfg.distributed_training
    if job.distributed_init_method is None:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
        job.distributed_init_method = f"tcp://localhost:{port}"
    elif job.distributed_rank:
        raise TrueNegError(
            f"--distributed-rank {job.distributed_rank}: on CPUs one command starts all workers; for several machines "
            "start each worker with --distributed-no-spawn and its rank, or use torchrun"
        )
    job.distributed_rank = None  # each worker takes its own
    with open_dict(job):
        job.distributed_num_procs = job.distributed_world_size
    workers = job.distributed_world_size
    return torch.multiprocessing.spawn(
        fn=distributed_main, args=(main, cfg, {**kwargs, "start_rank": 0}), nprocs=workers, join=True
    )


def _gather_lists_on_cpu() -> None:
    import torch
    from fairseq.distributed import utils as distributed_utils

    if torch.cuda.is_available():
        return
    stock_all_gather_list = distributed_utils.all_gather_list

    def all_gather_list(data: Any, group: Any = None, max_size: int = 16384) -> Any:
        workers = distributed_utils.get_world_size(group or distributed_utils.get_global_group())
        # The stock function looks for its buffers here, under its own name, before it makes them.
        all_gather_list._buffer = torch.empty(max_size * workers, dtype=torch.uint8)  # type: ignore[attr-defined]
        all_gather_list._cpu_buffer = torch.empty(max_size, dtype=torch.uint8)  # type: ignore[attr-defined]
        return stock_all_gather_list(data, group, max_size)

    distributed_utils.all_gather_list = all_gather_list


def _wrap_cpu_models() -> None:
    from fairseq.models import distributed_fairseq_model
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    class DeviceAwareDistributedDataParallel(DistributedDataParallel):
        def __init__(self, module: nn.Module, *args: Any, **kwargs: Any) -> None:
            if all(parameter.device.type == "cpu" for parameter in module.parameters()):
                kwargs["device_ids"] = kwargs["output_device"] = None
            super().__init__(module, *args, **kwargs)

    distributed_fairseq_model.DistributedDataParallel = DeviceAwareDistributedDataParallel
