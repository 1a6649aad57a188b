"""Which parameters decay and how deep they lie, as a tag on the parameter itself. Imports torch only.

An optimizer of fairseq is given parameters without names, under fp16 and bf16 even their fp32 copies, which keep the
attribute ``param_group`` alone of what a parameter may carry. So a model tags its parameters when it is built, and the
optimizer forms its groups from the tags. No optimizer but fairseq's ``composite`` reads the attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from torch import Tensor, nn

_LAYER = re.compile(r"(?P<stack>(?:.*?\.)?)layers\.(?P<index>\d+)\.")
_EMBEDDING = re.compile(r"(?P<stack>(?:.*?\.)?)(?:embed\w*|layernorm_embedding)\.")
_TAG = re.compile(r"depth_(\d+)")


def parameter_depths(names: Iterable[str]) -> dict[str, int]:
    """The distance of every parameter from the output of its own stack of layers.

    A stack is what has ``layers.0``, ``layers.1``, ...: a model may have several (generator and discriminator), each
    with its own number of layers n. Top layer: 1; bottom layer: n; what is named ``embed*`` or
    ``layernorm_embedding`` beside the layers (a projection to the layers' width too): n + 1; everything else is a
    head: 0. Names are those of fairseq's encoders, stock RoBERTa's among them.
    """
    names = list(names)
    layers: dict[str, int] = {}
    for match in filter(None, map(_LAYER.match, names)):
        layers[match["stack"]] = max(layers.get(match["stack"], 0), int(match["index"]) + 1)

    def depth(name: str) -> int:
        if layer := _LAYER.match(name):
            return layers[layer["stack"]] - int(layer["index"])
        embedding = _EMBEDDING.match(name) if layers else None
        return layers.get(embedding["stack"], max(layers.values())) + 1 if embedding else 0

    return {name: depth(name) for name in names}


def tag_parameters(model: nn.Module) -> None:
    """Sets ``param_group`` of every parameter to its depth; calling it again tags anew.

    A parameter of several names (tied embeddings, those that a generator and a discriminator share) gets the largest
    of their depths: an embedding tied to a head is an embedding.
    """
    named = list(model.named_parameters(remove_duplicate=False))
    depths = parameter_depths(name for name, _ in named)
    deepest: dict[nn.Parameter, int] = {}
    for name, parameter in named:
        deepest[parameter] = max(deepest.get(parameter, 0), depths[name])
    for parameter, depth in deepest.items():
        parameter.param_group = f"depth_{depth}"  # type: ignore[attr-defined]


def depth_of(parameter: Tensor) -> int | None:
    """The distance that :func:`tag_parameters` found, 0 for heads; None where it never saw the parameter."""
    match = _TAG.fullmatch(str(getattr(parameter, "param_group", "")))
    return int(match[1]) if match else None


def parameter_groups(
    parameters: Iterable[Tensor], *, weight_decay: float, layer_lr_decay: float
) -> list[dict[str, Any]]:
    """Groups for a torch optimizer, by depth and by whether weight decay applies, the deepest last.

    Biases and LayerNorm do not decay: they are what has one dimension. The groups depend on the model alone, not on the
    two numbers: a checkpoint fits whatever these are. Untagged parameters (of stock models or a criterion) have depth
    0. The keys are ``params``, ``weight_decay`` and ``lr_scale`` = layer_lr_decay ** depth.
    """
    members: dict[tuple[int, bool], list[Tensor]] = {}
    for parameter in parameters:
        members.setdefault((depth_of(parameter) or 0, parameter.ndim > 1), []).append(parameter)
    return [
        {"params": of_it, "weight_decay": weight_decay * decays, "lr_scale": layer_lr_decay**depth}
        for (depth, decays), of_it in sorted(members.items(), key=itemgetter(0))
    ]
