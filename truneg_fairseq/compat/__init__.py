"""The few repairs that fairseq needs to run this package's jobs. Nothing else here changes fairseq.

Each repair names its cause; all are applied when ``--user-dir`` imports the package, in every worker.

``check_version``
    Plain fairseq 0.12.2 cannot be used: its checkpoints and its hydra are not those of ``fairseq-fixed``.
``_allow_checkpoint_classes``
    torch >= 2.6 loads checkpoints with weights_only and refuses the (harmless) classes that fairseq puts into its own:
    ``Unsupported global: argparse.Namespace``. They are registered as safe; the protection stays on.
``_restore_numpy_long``
    ``--sample-break-mode eos`` uses ``numpy.compat.long``, which recent numpy releases do not have.
:mod:`.architectures`
    Checkpoints with old names of this package's architectures.
:mod:`.workers`
    Data-parallel workers on the CPU.
:mod:`.masks`
    New masks in each epoch, also in the processes that read data.
:mod:`.half_precision`
    Resuming fp16 and bf16 to the bit.
:mod:`.training`
    A training's start, its checkpoints and its end.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import types
import typing
from collections import defaultdict

from ..errors import TrueNegError

SUPPORTED_FAIRSEQ = ("fairseq-fixed", "0.12.3")
_applied = False


def apply() -> None:
    """Applies every repair, once."""
    global _applied  # noqa: PLW0603  (patching twice would wrap the wrappers)
    if _applied:
        return
    check_version(_installed_versions())
    from . import architectures, half_precision, masks, training, workers

    _allow_checkpoint_classes()
    _restore_numpy_long()
    for repairs in (architectures, workers, masks, half_precision, training):
        repairs.apply()
    _applied = True


def check_version(installed: dict[str, str | None]) -> None:
    """Refuses any fairseq but the supported one.

    Args:
        installed: version by distribution name, None where it is not installed.
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
