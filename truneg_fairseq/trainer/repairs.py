"""The few repairs that fairseq needs to run this package's jobs. Nothing else here changes fairseq.

All are applied when ``--user-dir`` imports the package, in every worker. Each names its cause where it is defined.
"""

from __future__ import annotations

import argparse
import atexit
import sys
import types
import typing
from collections import defaultdict

from ..errors import TrueNegError
from .folder import installed_version

_applied = False


def apply() -> None:
    """Applies every repair, once."""
    global _applied  # noqa: PLW0603  (patching twice would wrap the wrappers)
    if _applied:
        return
    from . import stopping

    if sys.argv[0].endswith(stopping.PROGRAMS):  # before there is anything to save
        stopping.REQUEST.listen()
    _check_version()
    import numpy as np
    from fairseq.tasks import masked_lm, translation_from_pretrained_bart

    from . import architectures, half_precision, launch, masks, trainer

    if not hasattr(np, "compat"):  # recent numpy has none; --sample-break-mode eos uses numpy.compat.long
        np.compat = types.SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]
    _allow_checkpoint_classes()
    architectures.apply()
    launch.start_trainings()
    launch.start_trainings_of_hydra()
    launch.wrap_models_on_cpu()
    trainer.copy_at_once()
    trainer.write_metrics()
    masked_lm.MaskTokensDataset = masks.EpochAwareMaskTokensDataset
    # It reads the name that tasks gave their options before hydra.
    translation_from_pretrained_bart.TranslationFromPretrainedBARTTask.args = property(lambda task: task.cfg)
    half_precision.save_fp32_copies()
    half_precision.copy_together()
    atexit.register(stopping.end_readers)
    _applied = True


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
            *(np.dtype, type(np.dtype(np.float64)), type(np.dtype(np.float32))),
            # What several workers exchange when the first one reads a checkpoint.
            *(DictConfig, ListConfig, AnyNode, Metadata, ContainerMetadata),
            *(typing.Any, defaultdict, list, dict, int, _TensorPlaceholder),
        ]
    )
