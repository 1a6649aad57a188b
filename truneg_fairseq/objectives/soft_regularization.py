"""Soft regularization: the distance between prediction and gold, of words (Eq. 3) or of sentences (Section 5)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def word_distance_sum(embeddings: Tensor, gold: Tensor, prediction: Tensor, counted: Tensor) -> Tensor:
    """Eq. 3 before its division by N_m: the sum of 1 - cos(e_k, e'_k) over the counted positions.

    Both rows get a gradient (a sparse tensor on a CPU). Equal tokens have distance 0, and so has a zero vector (whose
    angle is undefined), with zero gradient: the sum is never NaN.

    Args:
        embeddings: shape (V, E), the input embedding matrix, any floating dtype; computed in fp32.
        gold: int64, shape (N,).
        prediction: int64, shape (N,).
        counted: bool, shape (N,), the positions that count.

    Returns:
        fp32 scalar, between 0 and 2 N.
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
    return torch.where(defined, 1.0 - cosine, cosine.new_zeros(())).sum()


def expected_distance_sum(embeddings: Tensor, logits: Tensor, gold: Tensor, counted: Tensor) -> Tensor:
    """The distance that Eq. 3 expects of the model: the sum of E_v [1 - cos(e_v, e_k)] over the counted positions.

    v is drawn from the model's distribution, as in EMO (Ren et al., ICLR 2024), so that the loss has a gradient by the
    logits, where the argmax of Eq. 3 has none. The embeddings get no gradient: they measure the distance, and moving
    all of them together would make it 0. A zero vector is at distance 1 from every word.

    Args:
        embeddings: shape (V, E), the input embedding matrix, any floating dtype; computed in fp32.
        logits: shape (N, V), any floating dtype.
        gold: int64, shape (N,).
        counted: bool, shape (N,), the positions that count.

    Returns:
        fp32 scalar, between 0 and 2 N up to rounding.
    """
    directions = F.normalize(embeddings.detach().float(), dim=1)
    mean = F.softmax(logits, dim=-1, dtype=torch.float32) @ directions
    distance = 1.0 - (mean * directions[gold]).sum(1)
    return torch.where(counted, distance, distance.new_zeros(())).sum()


def sentence_divergence_sum(predicted: Tensor, original: Tensor, counted: Tensor) -> Tensor:
    """Sentence-level regularization: KL(softmax H_p || softmax H_s) summed over the counted tokens.

    The softmax is over the hidden dimension, in fp32.

    Args:
        predicted: shape (B, T, H), last-layer states H_p of the sentence with the predictions filled in.
        original: shape (B, T, H), last-layer states H_s of the original sentence; detach it to make it a fixed target.
        counted: bool, shape (B, T), the tokens that count (not padding).

    Returns:
        fp32 scalar >= 0 up to rounding, in nats.
    """
    log_predicted = F.log_softmax(predicted, dim=-1, dtype=torch.float32)
    log_original = F.log_softmax(original, dim=-1, dtype=torch.float32)
    divergence = F.kl_div(log_original, log_predicted, reduction="none", log_target=True).sum(-1)
    return torch.where(counted, divergence, divergence.new_zeros(())).sum()
