"""A batch's predictions at the masked positions, and the encoder passes that detectors, soft targets and
sentence-level regularization share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import TrueNegError
from .options import TrueNegativeOptions

T = TypeVar("T")

_BLOCK, _NARROW = 256, 64  # columns
_WRAPPED = ("_orig_mod", "module", "_fsdp_wrapped_module")
"""The submodule of a compiled model, of DDP, and of FSDP."""


class MaskedPredictions(NamedTuple):
    """A batch's predictions, and which of them are false negatives once these are looked for.

    N is the number of projected positions: the masked ones, or all B * T of them in a batch without any (as in stock
    masked_lm); ``counted`` marks those that are masked.
    """

    logits: Tensor  # shape (N, V), with gradient
    original: Tensor  # int64, shape (B, T), the tokens before masking
    positions: Tensor  # int64, shape (N,), indices into the flattened (B, T)
    gold: Tensor  # int64, shape (N,), any token where not counted
    prediction: Tensor  # int64, shape (N,), argmax of the logits, without gradient
    counted: Tensor  # bool, shape (N,)
    # bool, shape (N,), where the gold token is a whole word; None where nothing looks at words
    whole_word: Tensor | None
    # bool, shape (N,); None where nothing looks for false negatives, or before it has
    is_false_negative: Tensor | None = None
    # fp32, shape (N,), how acceptable the prediction is, 0 where it is no false negative; None where a detector says
    # yes or no, as a table does
    acceptance: Tensor | None = None
    by_source: dict[str, Tensor] | None = None  # of the detector's, see FalseNegatives
    # fp32, shape (N,), the factor of each position's loss, 0 where it does not count; None for 1
    weights: Tensor | None = None
    given: tuple[Any, ...] = ()  # SoftTargets of this batch alone, beside those of the options
    real: Tensor | None = None  # bool, shape (B, T), the tokens that are not padding; None for those of another id

    def part(self, rows: slice) -> MaskedPredictions:
        """Some of the predictions, of the same sentences; without targets of the batch's own."""
        names = ("logits", "positions", "gold", "prediction", "counted", "whole_word", "weights")
        parts = {name: each[rows] for name in names if (each := getattr(self, name)) is not None}
        return self._replace(**parts, given=())


def most_likely(logits: Tensor) -> Tensor:
    """The argmax of each row, int64, shape (N,), without gradient; of equal logits the first.

    On a CPU torch's own takes three times (16 bits: five times) as long: it compares one by one, where the maxima of
    blocks are vectorised.
    """
    logits = logits.detach()
    size = logits.size(-1)
    if logits.device.type != "cpu" or size < 2 * _BLOCK:
        return logits.argmax(-1)
    whole = size - size % _BLOCK
    maxima = logits[:, :whole].unflatten(1, (-1, _BLOCK)).amax(2)
    if whole < size:
        maxima = torch.cat([maxima, logits[:, whole:].amax(1, keepdim=True)], 1)
    # The last block may be a part: its last column, repeated, is never the first of equals.
    columns = (maxima.argmax(1, keepdim=True) * _BLOCK + torch.arange(_BLOCK)).clamp(max=size - 1)
    return columns.gather(1, logits.gather(1, columns).argmax(1, keepdim=True)).squeeze(1)


def largest(values: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The largest values of each row and their columns, in falling order, shape (N, K) each.

    As :func:`most_likely`: on a CPU only the columns of the blocks with the largest maxima are sorted.
    """
    size = values.size(1)
    if values.device.type != "cpu" or size < 4 * _NARROW * number:
        best = values.topk(number, dim=1)
        return best.values, best.indices
    whole = size - size % _NARROW
    blocks = values[:, :whole].unflatten(1, (-1, _NARROW)).amax(2).topk(number, dim=1, sorted=False).indices
    columns = (blocks[..., None] * _NARROW + torch.arange(_NARROW)).flatten(1)
    columns = torch.cat([columns, torch.arange(whole, size).expand(len(values), -1)], 1)
    best = values.gather(1, columns).topk(number, dim=1)
    return best.values, columns.gather(1, best.indices)


def fill(predicted: MaskedPredictions, tokens: Tensor) -> Tensor:
    """The original sentences with other tokens, int64, shape (N,), at the masked positions; shape (B, T)."""
    original = predicted.original.reshape(-1)
    # A row that does not count may repeat the place of another one: it is put behind the end.
    places = predicted.positions.where(predicted.counted, len(original))
    return F.pad(original, (0, 1)).index_copy(0, places, tokens)[:-1].view_as(predicted.original)


def gather_rows(grid: Tensor, positions: Tensor) -> Tensor:
    """The rows of a grid, shape (B, T) or (B, T, H), at positions of the flattened (B, T), shape (N,) or (N, H)."""
    return grid.flatten(0, 1).index_select(0, positions)


def count_rows(hits: Tensor, predicted: MaskedPredictions) -> Tensor:
    """Number of sentences with a hit, int64 scalar; ``hits`` is bool, shape (N,), at the masked positions."""
    height, width = predicted.original.shape
    rows = torch.zeros(height, dtype=torch.long, device=hits.device)
    rows.index_add_(0, torch.div(predicted.positions, width, rounding_mode="floor"), hits.long())
    return rows.gt(0).sum()


class EncoderPasses:
    """What the objective asks of a masked LM beyond the logits: passes of its encoder, each made when first asked for.

    Extra passes run without dropout, with two exceptions for sentence-level regularization: the filled pass, which is
    trained, and the original pass if nothing else uses it. They run under the caller's autocast.

    Args:
        predicted: the predictions.
        options: decide on gradient and dropout.
        embeddings: finds the input embedding matrix, shape (V, E).
        encode: takes tokens, int64, shape (B, T), whether a gradient is wanted and whether dropout is; gives the
            states of the layers, shape (B, T, H) each, the last layer's last; those of the last layer are enough where
            nothing asks for :meth:`hidden_states`.
        with_layers: whether something asks for :meth:`hidden_states`.
        filled: the filled sentences and their states, as ``encode`` gives them, where that pass is made already; None
            to fill the sentences with the predictions.
    """

    def __init__(
        self,
        predicted: MaskedPredictions,
        options: TrueNegativeOptions,
        *,
        embeddings: Callable[[], Tensor],
        encode: Callable[[Tensor, bool, bool], Sequence[Tensor]],
        with_layers: bool = False,
        filled: tuple[Tensor, Sequence[Tensor]] | None = None,
    ) -> None:
        self._predicted, self._options, self._encode, self._given = predicted, options, encode, filled
        self._with_layers = with_layers
        self._made: dict[int | str, Any] = {}
        # Detectors and soft targets, which want no gradient, may be the first to ask for a pass that trains.
        self._gradient = torch.is_grad_enabled()
        self._autocast = autocast_of(predicted.gold.device)
        self.embeddings = embeddings

    def of(self, predicted: MaskedPredictions) -> EncoderPasses:
        """The same model asked about other predictions, such as a part of them."""
        return EncoderPasses(
            predicted,
            self._options,
            embeddings=self.embeddings,
            encode=self._encode,
            with_layers=self._with_layers,
        )

    def once(self, owner: object, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for an owner: a source may be asked as soft target and as detector."""
        return self._once(id(owner), make)

    def _once(self, name: int | str, make: Callable[[], T]) -> T:
        # functools.cached_property has a lock before Python 3.12, which torch.compile does not take.
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def original(self) -> Tensor:
        """The last layer's hidden states of the original sentences, shape (B, T, H)."""
        return self._original()[0]

    def filled(self) -> tuple[Tensor, Tensor]:
        """Sentences with other words at the masked positions, int64, shape (B, T), and their last hidden states."""
        tokens, (last, _) = self._filled()
        return tokens, last

    def hidden_states(self) -> tuple[Tensor, Tensor]:
        """Every layer's states at the masked positions of the original and of the filled sentences.

        Shape (L, N, H) each, without gradient; needs ``with_layers``.
        """
        return torch.stack(self._original()[1]), torch.stack(self._filled()[1][1])

    def _original(self) -> tuple[Tensor, list[Tensor]]:
        return self._once("original", lambda: self._read(self._predicted.original, False, not self._with_layers))

    def _filled(self) -> tuple[Tensor, tuple[Tensor, list[Tensor]]]:
        return self._once("filled", self._made_filled)

    def _made_filled(self) -> tuple[Tensor, tuple[Tensor, list[Tensor]]]:
        if self._given is not None:
            return self._given[0], self._keep(self._given[1])
        tokens = fill(self._predicted, self._predicted.prediction)
        trained = bool(self._options.sr_sent_weight or self._options.terms)
        return tokens, self._read(tokens, trained, trained)

    def _read(self, tokens: Tensor, gradient: bool, dropout: bool) -> tuple[Tensor, list[Tensor]]:
        with torch.set_grad_enabled(self._gradient), self._autocast():
            return self._keep(self._encode(tokens, gradient, dropout))

    def _keep(self, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The last layer's states, and all layers' at the masked positions, which are far fewer."""
        layers = states if self._with_layers else ()
        return states[-1], [gather_rows(layer.detach(), self._predicted.positions) for layer in layers]


def unwrap(model: Any) -> Any:
    """The model of transformers or fairseq inside its wrappers, in any order of them; itself without any.

    Wrappers are DDP, FSDP, torch.compile, PEFT, and any module that holds one model.
    """
    inner = _models_in(model)
    if len(inner) > 1:
        names = ", ".join(type(each).__name__ for each in inner)
        raise TrueNegError(f"model: {type(model).__name__} holds several models ({names}); expected one of them")
    if inner:
        return inner[0]
    while part := next((part for name, part in getattr(model, "_modules", {}).items() if name in _WRAPPED), None):
        model = part
    return model


def _models_in(module: Any) -> list[Any]:
    kind = type(module)
    if hasattr(kind, "get_input_embeddings") or "BaseFairseqModel" in [each.__name__ for each in kind.__mro__]:
        return [module]
    parts = getattr(module, "_modules", {}).values()
    return list(dict.fromkeys(model for part in parts for model in _models_in(part)))


def encoder_of(model: Any) -> Any:
    """The encoder of a masked LM of transformers, which gives hidden states; an encoder is its own."""
    encoder = getattr(model, "base_model", None)
    if encoder is None or (encoder is model and model.get_output_embeddings() is not None):
        raise TrueNegError(
            f"model: {type(model).__name__} has no encoder as its base_model; expected a masked LM of transformers, or "
            "the encoder itself"
        )
    return encoder


def embeddings_in_use(model: Any, *, keep: bool = False) -> Tensor:
    """The input embeddings of a model of transformers, shape (V, E), with what an adapter adds to them.

    ``keep`` is that of :func:`gathered`.
    """
    try:
        part = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        raise TrueNegError(
            f"model: {type(model).__name__} has no get_input_embeddings(); expected embeddings=, shape (V, E)"
        ) from None
    with gathered(model, part, keep=keep) as is_copied:
        found = part.weight
        if not isinstance(part, nn.Embedding):
            found = part(torch.arange(len(found), device=found.device))
        embeddings: Tensor = found if isinstance(found, Tensor) else found[0]  # I-BERT's have a scale beside them
        return embeddings.clone() if is_copied else embeddings


def sharded_around(model: nn.Module, part: Any) -> list[Any]:
    """The modules of a model that FSDP2 (``fully_shard``) shares out among the processes, with a part in them."""
    return [each for each in model.modules() if hasattr(each, "unshard") and any(one is part for one in each.modules())]


@contextlib.contextmanager
def gathered(model: nn.Module, part: Any, *, keep: bool) -> Iterator[bool]:
    """Makes a part's weights whole, which FSDP2 may share out, to use them outside of their module's forward pass.

    They stay so until the backward pass where ``keep`` is true, else for the context alone: then it gives True.
    """
    modules = sharded_around(model, part)
    for each in modules:
        each.unshard()
    try:
        yield bool(modules) and not keep
    finally:
        for each in () if keep else modules:
            each.reshard()


def autocast_of(device: torch.device) -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Makes contexts with the autocast that is on now, for code that runs where it is off."""
    if not torch.amp.is_autocast_available(device.type) or not torch.is_autocast_enabled(device.type):
        return contextlib.nullcontext
    kind = torch.get_autocast_dtype(device.type)
    return lambda: torch.autocast(device.type, kind)


def accumulated(dtype: torch.dtype) -> torch.dtype:
    """The type that a loss of logits is computed in: fp32, and float64 of float64."""
    return torch.promote_types(dtype, torch.float32)


def full_precision(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Switches autocast off: it would round the matrix products of the objective to 16 bits, whatever their inputs."""
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)


@contextlib.contextmanager
def dropout_off(module: nn.Module, off: bool = True) -> Iterator[None]:
    """Puts the modules that train into evaluation for a while; nothing else about them changes."""
    training = [part for part in module.modules() if part.training] if off else []
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
