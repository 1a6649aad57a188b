"""Training steps that the GPU records once and replays: CUDA graphs of forward and backward.

With a small model the host is slower than the GPU: it starts some thousand kernels per update, one by one. A recording
starts them all at once. It repeats kernels and no Python: whatever a step takes from the host must be the same again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.modules import LayerDropModuleList
from fairseq.optim import FairseqBMUF
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..errors import TrueNegError, reason
from ..models.bert import BertModel

logger = logging.getLogger(__name__)

MOST = 4
"""The most recordings. Full batches have two shapes, with ``--mask-whole-words`` many more numbers of tokens."""

Outputs = tuple[Any, Any, dict[str, Any]]
Step = Callable[[dict[str, Any]], Outputs]


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: list[Any]  # of the batch, which a replay reads
    gradients: dict[Tensor, Tensor]  # by parameter; a replay overwrites them
    outputs: Outputs


class RecordedSteps:
    """Runs the first batch of a shape normally, records the second, and replays the recording from then on.

    The random numbers are the same as without recording: the trainer sets the seed of dropout before each update, and
    the criterion's generators (``step_generators``) are seeded before each replay. Each shape without padding, and each
    number of predicted tokens, has a recording of its own; after :data:`MOST` of them, other batches run normally. A
    new fp16 loss scale discards them.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[Any, ...]] = set()
        self._recordings: dict[tuple[Any, ...], _Recording] = {}
        self._can_record: bool | None = None
        self._parameters: list[Tensor] = []  # finding them takes a millisecond
        self._loss_scale: float | None = None  # of fp16: a number in the recordings
        self._memory: Any = None  # one pool for all recordings: only one is replayed at a time

    def run(self, step: Step, sample: dict[str, Any], model: Any, criterion: Any, optimizer: Any) -> Outputs:
        """Runs forward and backward, which add to the gradients; returns what ``FairseqTask.train_step`` returns.

        Raises:
            TrueNegError: the step cannot be recorded, because it reads a value of the GPU on the host.
        """
        if self._can_record is None:
            self._can_record = can_record(model, criterion, optimizer)
            self._parameters = list(model.parameters())
        if not self._can_record or sample["net_input"].get("padded", True):
            return step(sample)
        leaves, layout = tree_flatten(sample)
        self._forget_where_changed(getattr(getattr(optimizer, "scaler", None), "loss_scale", None))
        key = tuple(tuple(leaf.shape) if isinstance(leaf, Tensor) else leaf for leaf in leaves)
        if key not in self._recordings and not self._is_to_be_recorded(key):
            return step(sample)
        before = {p: p.grad.clone() for p in self._parameters if p.grad is not None}  # of earlier micro-batches
        generators = [each.at(self._parameters[0].device, training=True) for each in criterion.step_generators]
        if key not in self._recordings:
            own = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            for parameter in self._parameters:
                parameter.grad = None
            self._recordings[key] = self._record(step, own, tree_unflatten(own, layout), generators)
            others = "; batches of other shapes run without a recording" if len(self._recordings) == MOST else ""
            logger.info(f"recorded the training step of a batch of {_size(sample)}{others}")
        return _replay(self._recordings[key], leaves, before, optimizer)

    def _is_to_be_recorded(self, key: tuple[Any, ...]) -> bool:
        if len(self._recordings) == MOST:
            return False
        seen = key in self._seen
        self._seen.add(key)
        return seen

    def _forget_where_changed(self, loss_scale: float | None) -> None:
        if loss_scale != self._loss_scale:
            self._loss_scale, self._memory = loss_scale, None
            self._recordings.clear()

    def _record(
        self, step: Step, inputs: list[Any], sample: dict[str, Any], generators: list[torch.Generator]
    ) -> _Recording:
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        if self._memory is None:
            self._memory = torch.cuda.graph_pool_handle()
        try:
            # Other threads go on: fairseq's reader allocates pinned memory, which a "global" recording forbids to all.
            with torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"):
                loss, size, logged = step(sample)
        except RuntimeError as error:
            if "out of memory" in str(error):
                self._can_record = False  # or fairseq skips this batch, and every other of its shape
                raise
            raise TrueNegError(
                f"--cuda-graphs: the training step cannot be recorded ({reason(error)}); leave it out"
            ) from error
        # Detached: what holds the history would tie the next plain step to the stream of this recording.
        outputs = (loss.detach(), size, {name: _detached(value) for name, value in logged.items()})
        gradients = {p: p.grad for p in self._parameters if p.grad is not None}
        return _Recording(graph, inputs, gradients, outputs)


def can_record(model: Any, criterion: Any, optimizer: Any) -> bool:
    """Whether every step of a shape has the same kernels: on one GPU, if the host decides nothing in an update."""
    ours = isinstance(model, BertModel)  # others, and wrappers of data parallelism, ask the GPU for padding
    repeats = getattr(criterion, "repeats_its_step", False) and not isinstance(optimizer, FairseqBMUF)
    drops_layers = any(isinstance(module, LayerDropModuleList) for module in model.modules())
    # Quantization noise replaces weights, or counts updates, in hooks on the host.
    is_noisy = ours and any(getattr(model.args, f"quant_noise_{kind}", 0) for kind in ("pq", "scalar"))
    can = next(model.parameters()).is_cuda and ours and repeats and not drops_layers and not is_noisy
    if not can:
        logger.warning(
            "--cuda-graphs: no effect; expected one GPU, a model and a criterion of this package, and neither "
            "--soft-targets teacher, --encoder-layerdrop, --quant-noise-pq, "
            "--quant-noise-scalar nor --use-bmuf"
        )
    return can


def _replay(recording: _Recording, leaves: list[Any], before: dict[Tensor, Tensor], optimizer: Any) -> Outputs:
    tensors = [(own, leaf) for own, leaf in zip(recording.inputs, leaves, strict=True) if isinstance(leaf, Tensor)]
    for own, leaf in tensors:
        own.copy_(leaf)
    recording.graph.replay()
    for parameter, gradient in recording.gradients.items():
        parameter.grad = gradient
    if before:
        torch._foreach_add_([recording.gradients[parameter] for parameter in before], list(before.values()))
    if hasattr(optimizer, "_needs_sync"):
        optimizer._needs_sync = True  # as fairseq's backward with 16 bits says it
    loss, size, logged = recording.outputs
    # Copies: the next replay of this update writes into the recorded ones.
    return loss, _copy(size), {name: _copy(value) for name, value in logged.items()}


def _size(sample: dict[str, Any]) -> str:
    return " x ".join(map(str, sample["target"].shape))


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
