"""The few repairs that fairseq needs to run this package's jobs. Nothing else here changes fairseq.

All are applied when ``--user-dir`` imports the package, in every worker. Each names its cause where it is defined.
"""

from __future__ import annotations

import argparse
import types
import typing
from collections import defaultdict
from collections.abc import Callable

from ..errors import TrueNegError
from ..training_folder.manifest import installed_version

SUPPORTED_FAIRSEQ = ("fairseq-fixed", "0.12.3")
_applied = False


def apply() -> None:
    """Applies every repair, once."""
    global _applied  # noqa: PLW0603  (patching twice would wrap the wrappers)
    if _applied:
        return
    from ..training_folder.stopping import REQUEST, end_readers_at_exit

    REQUEST.listen_from_the_start()
    check_version()
    from . import architectures, half_precision, launch, masks, trainer

    _allow_checkpoint_classes()
    _restore_numpy_long()
    architectures.apply()
    launch.start_trainings()
    launch.start_trainings_of_hydra()
    launch.wrap_models_on_cpu()
    trainer.copy_at_once()
    trainer.write_metrics()
    masks.draw_new_ones_in_each_epoch()
    half_precision.save_fp32_copies()
    end_readers_at_exit()
    _applied = True


def check_version(installed: Callable[[str], str | None] = installed_version) -> None:
    """Refuses any fairseq but the supported one: plain 0.12.2 has other checkpoints and another hydra."""
    name, prefix = SUPPORTED_FAIRSEQ
    found = installed(name)
    if found is None or not found.startswith(prefix):
        what = f"{name} {found}" if found else f"fairseq {installed('fairseq') or 'of an unknown version'}"
        raise TrueNegError(
            f"found {what}, expected {name} {prefix}.x; run: pip uninstall -y fairseq fairseq-fixed; "
            f"pip install --no-build-isolation '{name}=={prefix}.1' (after torch)"
        )


def _allow_checkpoint_classes() -> None:
    """torch >= 2.6 loads with weights_only, which refuses the harmless classes in fairseq's checkpoints."""
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
    """``--sample-break-mode eos`` uses numpy.compat.long, which recent numpy releases do not have."""
    import numpy as np

    if not hasattr(np, "compat"):
        np.compat = types.SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]
