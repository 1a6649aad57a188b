"""The few repairs that fairseq needs to run this package's jobs. Nothing else here changes fairseq.

Each repair names its cause; all are applied when ``--user-dir`` imports the package, in every worker.

``check_version``
    Plain fairseq 0.12.2 cannot be used: its checkpoints and its hydra are not those of ``fairseq-fixed``.
``_allow_checkpoint_classes``
    torch >= 2.6 loads checkpoints with weights_only and refuses the (harmless) classes that fairseq puts into its own:
    ``Unsupported global: argparse.Namespace``. They are registered as safe; the protection stays on.
``_restore_numpy_long``
    ``--sample-break-mode eos`` uses ``numpy.compat.long``, which recent numpy releases do not have.
``_launch_cpu_workers``
    Without a GPU fairseq starts no data-parallel workers: torchrun without --distributed-world-size gives independent
    jobs in one folder, with it a division by the number of GPUs, and its own spawn starts no process. The backend is
    nccl whatever the device.
``_free_architecture_names``
    fairseq gives the names ``bert_base`` and ``bert_large`` to the model of its ``legacy_masked_lm`` task. With this
    package they are BERT's.
``_gather_lists_on_cpu``
    Logs that are not sums are gathered through a buffer on the GPU, whatever the device.
``_wrap_cpu_models``
    torch's DistributedDataParallel refuses the device ids that fairseq gives it for a module on the CPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import socket
import types
import typing
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .errors import TrueNegError

SUPPORTED_FAIRSEQ = ("fairseq-fixed", "0.12.3")
_applied = False


def apply() -> None:
    """Applies every repair, once.

    Raises:
        TrueNegError: the installed fairseq is not the supported one.
    """
    global _applied  # noqa: PLW0603  (patching twice would wrap the wrappers)
    if _applied:
        return
    check_version(_installed_versions())
    _allow_checkpoint_classes()
    _restore_numpy_long()
    _launch_cpu_workers()
    _free_architecture_names()
    _gather_lists_on_cpu()
    _wrap_cpu_models()
    _applied = True


def check_version(installed: dict[str, str | None]) -> None:
    """Refuses any fairseq but the supported one.

    Args:
        installed: version by distribution name, None where it is not installed.

    Raises:
        TrueNegError: another fairseq.
    """
    name, prefix = SUPPORTED_FAIRSEQ
    found = installed.get(name)
    if found is not None and found.startswith(prefix):
        return
    other = installed.get("fairseq")
    what = f"{name} {found}" if found else f"fairseq {other}" if other else "a fairseq that pip does not know"
    raise TrueNegError(
        f"found {what}, expected {name} {prefix}.x; run: pip uninstall -y fairseq fairseq-fixed; "
        f"pip install --no-build-isolation '{name}=={prefix}.1' (after torch)"
    )


def _installed_versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for name in ("fairseq-fixed", "fairseq"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _allow_checkpoint_classes() -> None:
    import numpy as np
    import torch
    from fairseq.distributed.utils import _TensorPlaceholder
    from numpy._core.multiarray import scalar
    from omegaconf import DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata
    from omegaconf.nodes import AnyNode

    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,  # fairseq-train's arguments
            scalar,  # a best metric that is a numpy value
            np.dtype,
            type(np.dtype(np.float64)),
            type(np.dtype(np.float32)),
            DictConfig,  # what several workers exchange when the first one reads a checkpoint
            ListConfig,
            AnyNode,
            Metadata,
            ContainerMetadata,
            typing.Any,
            defaultdict,
            list,
            dict,
            int,
            _TensorPlaceholder,
        ]
    )


def _restore_numpy_long() -> None:
    import numpy as np

    if not hasattr(np, "compat"):
        np.compat = types.SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]


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
        if job.distributed_init_method is None and job.distributed_world_size > 1:
            return _spawn(cfg, main, kwargs)
        return stock_call_main(cfg, main, **kwargs)

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


def _spawn(cfg: Any, main: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    import torch
    from fairseq.distributed.utils import distributed_main
    from omegaconf import open_dict

    job = cfg.distributed_training
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    job.distributed_init_method = f"tcp://localhost:{port}"
    job.distributed_rank = None  # each worker takes its own
    with open_dict(job):
        job.distributed_num_procs = job.distributed_world_size
    workers = job.distributed_world_size
    return torch.multiprocessing.spawn(
        fn=distributed_main, args=(main, cfg, {**kwargs, "start_rank": 0}), nprocs=workers, join=True
    )


def _free_architecture_names() -> None:
    from fairseq import models

    for name in ("bert_base", "bert_large"):
        for registry in (models.ARCH_MODEL_REGISTRY, models.ARCH_MODEL_NAME_REGISTRY, models.ARCH_CONFIG_REGISTRY):
            registry.pop(name)
        models.ARCH_MODEL_INV_REGISTRY["masked_lm"].remove(name)


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
