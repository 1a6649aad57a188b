"""Regularizers: terms that are added to the loss, SR-word (Eq. 3) and SR-sent (Section 5), and those of a user."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import TrueNegError
from .build import Setting
from .passes import EncoderPasses, MaskedPredictions


class Term(nn.Module):
    """A term of the loss: its mean over the masked positions, or over the tokens that are not padding, is minimised.

    What it looks up belongs into buffers, which keep their type in fp16; parameters are refused.
    """

    over: ClassVar[str] = "masked"
    """What it has values of: "masked" positions, or "tokens"."""

    reads: ClassVar[frozenset[str]] = frozenset({"sentence"})
    """As of :class:`~.alternatives.Alternatives`."""

    def __init__(self, setting: Setting | None = None) -> None:
        """As of :class:`~.alternatives.Alternatives`."""
        super().__init__()

    def forward(self, batch: MaskedPredictions, model: EncoderPasses) -> Tensor:
        """The values, fp32, with gradient: shape (N,), or (B, T) of tokens. Those that do not count are left out."""
        raise NotImplementedError


class SrWord(Term):
    """Word-level soft regularization (Eq. 3)."""

    reads = frozenset()

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._form, self._weight = setting.options.sr_word_form, setting.options.sr_word_weight

    def forward(self, batch: MaskedPredictions, model: EncoderPasses) -> Tensor:
        embeddings = model.embeddings()
        if self._form == "expected":
            return expected_distances(embeddings, batch.logits, batch.gold, batch.counted)
        if torch.is_grad_enabled() and not embeddings.requires_grad:
            raise TrueNegError(
                f"--sr-word-weight {self._weight}: the input embeddings are frozen, so that it would change nothing; "
                "expected embeddings that train, --sr-word-form expected, or --sr-word-weight 0"
            )
        return word_distances(embeddings, batch.gold, batch.prediction, batch.counted)


class SrSent(Term):
    """Sentence-level soft regularization (Section 5): of the sentence with the predictions from the original one."""

    over = "tokens"

    def __init__(self, setting: Setting) -> None:
        super().__init__()

    def forward(self, batch: MaskedPredictions, model: EncoderPasses) -> Tensor:
        return sentence_divergence(model.filled()[1], model.original().detach())


def word_distances(embeddings: Tensor, gold: Tensor, prediction: Tensor, counted: Tensor) -> Tensor:
    """Eq. 3 before its mean: 1 - cos(e_k, e'_k) at each position, 0 where it does not count.

    Both rows get a gradient (a sparse tensor on a CPU). Equal tokens have distance 0, and so has a zero vector (whose
    angle is undefined), with zero gradient: it is never NaN.

    ``embeddings`` is the input embedding matrix, shape (V, E), of any floating type; computed in fp32. ``gold`` and
    ``prediction``, int64, and ``counted``, bool, have the shape (N,). Gives fp32, shape (N,), between 0 and 2.
    """
    # One look-up for both: its backward makes one (V, E) gradient instead of two, and on a CPU none: a sparse one is
    # added to the dense gradient of the projection. On CUDA that addition has no order, so that runs would not repeat.
    # An adapter's sum has no sparse gradient.
    sparse = embeddings.device.type == "cpu" and embeddings.is_leaf
    pair = F.embedding(torch.stack([gold, prediction]), embeddings, sparse=sparse).float()
    squared_norms = pair.square().sum(-1)
    # A squared norm below the normal fp32 numbers counts as zero: the gradient of its square root would overflow.
    defined = counted & gold.ne(prediction) & squared_norms.ge(torch.finfo(torch.float32).tiny).all(0)
    norms = torch.where(defined, squared_norms, squared_norms.new_ones(())).sqrt()
    cosine = (pair[0] * pair[1]).sum(-1) / (norms[0] * norms[1])
    return torch.where(defined, 1.0 - cosine, cosine.new_zeros(()))


def expected_distances(embeddings: Tensor, logits: Tensor, gold: Tensor, counted: Tensor) -> Tensor:
    """The distance that Eq. 3 expects of the model: E_v [1 - cos(e_v, e_k)] at each counted position.

    v is drawn from the model's distribution, as in EMO (Ren et al., ICLR 2024), so that the loss has a gradient by the
    logits, where the argmax of Eq. 3 has none. The embeddings get no gradient: they measure the distance, and moving
    all of them together would make it 0. A zero vector is at distance 1 from every word.

    Arguments and result are those of :func:`word_distances`, with ``logits``, shape (N, V), of any floating type.
    """
    directions = F.normalize(embeddings.detach().float(), dim=1)
    mean = F.softmax(logits, dim=-1, dtype=torch.float32) @ directions
    distance = 1.0 - (mean * directions[gold]).sum(1)
    return torch.where(counted, distance, distance.new_zeros(()))


def sentence_divergence(predicted: Tensor, original: Tensor) -> Tensor:
    """Sentence-level regularization: KL(softmax H_p || softmax H_s) of each token, in nats.

    H_p and H_s are the last layer's states, shape (B, T, H), of the sentence with the predictions filled in and of the
    original one, which is detached where it is to be a fixed target. The softmax is over the hidden dimension, in fp32.
    Gives fp32, shape (B, T), >= 0 up to rounding.
    """
    log_predicted = F.log_softmax(predicted, dim=-1, dtype=torch.float32)
    log_original = F.log_softmax(original, dim=-1, dtype=torch.float32)
    return F.kl_div(log_original, log_predicted, reduction="none", log_target=True).sum(-1)
