"""Reading what other tools need from fairseq's checkpoints."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError

if TYPE_CHECKING:
    from torch import Tensor

_EMBEDDINGS = "embed_tokens.weight"


def read_embeddings(checkpoint: Path) -> Tensor:
    """The input embedding matrix of a fairseq encoder's checkpoint, shape (V, E); loaded with weights_only.

    Raises:
        TrueNegError: no such file, no checkpoint, or a model without one input embedding matrix.
    """
    import fairseq  # noqa: F401  (compat repairs it)
    import torch

    from .. import compat

    compat.apply()
    try:
        model = torch.load(checkpoint, map_location="cpu", weights_only=True)["model"]
    except FileNotFoundError:
        raise TrueNegError(f"{checkpoint}: no such file; expected a fairseq checkpoint") from None
    except (pickle.UnpicklingError, RuntimeError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrueNegError(f"{checkpoint}: cannot be loaded ({reason}); expected a fairseq checkpoint") from None
    matrices = [tensor for name, tensor in model.items() if name.endswith(_EMBEDDINGS)]
    if len(matrices) != 1:
        raise TrueNegError(
            f"{checkpoint}: has {len(matrices)} input embedding matrices, expected 1 named ...{_EMBEDDINGS}"
        )
    embeddings: Tensor = matrices[0]
    return embeddings
