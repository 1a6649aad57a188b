"""The model inside what wraps it: torch.compile, data parallelism, PEFT's adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

_INNER = ("_orig_mod", "module", "_fsdp_wrapped_module", "base_model", "model")
"""The submodule of a compiled model, of DDP, of FSDP, of a PEFT model, and of its adapters."""


def unwrap(model: Any) -> Any:
    """The model of transformers inside its wrappers, in any order of them; itself without any."""
    while not issubclass(type(model), PreTrainedModel):
        parts = getattr(model, "_modules", {})
        name = next((name for name in _INNER if name in parts), None)
        if name is None:
            return model
        model = parts[name]
    return model


def embeddings_in_use(model: Any) -> Tensor:
    """The input embeddings of a model, shape (V, E), with what an adapter adds to them."""
    part = unwrap(model).get_input_embeddings()
    if isinstance(part, nn.Embedding):
        return part.weight
    embeddings: Tensor = part(torch.arange(len(part.weight), device=part.weight.device))
    return embeddings
