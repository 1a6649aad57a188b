"""Soft targets: a share of the target goes from the gold word to other words.

``L_k = (1 - a) CE(w_k) + a sum_r q_k(r) CE(r)``, or a sum of several such shares, where ``q_k`` is uniform over the
vocabulary, which is plain label smoothing (Szegedy et al., 2016), or what a source of :mod:`~.alternatives` gives.
q carries no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import TrueNegError
from .passes import accumulated, largest

# Embedding entries gathered at once for the cosines of synonyms.
_BLOCK_ENTRIES = 1 << 22
TEMPERATURE, THRESHOLD = 0.1, 0.3  # of cosines; one that is smaller gives a synonym no share


Words = tuple[Tensor, Tensor]
"""Tokens, int64, shape (N, K), any token where the weight is 0; and weights >= 0, fp32, shape (N, K)."""


class SoftTargets(NamedTuple):
    """The distributions q of N positions; all of it without gradient."""

    share: Tensor  # fp32, shape (N,), the share a of the target that q gets; 0 leaves the gold word all of it
    # int64, shape (N, K), the words of q, any word where ``probability`` is 0
    tokens: Tensor | None = None
    probability: Tensor | None = None  # fp32, shape (N, K); both are None for the uniform distribution

    def given_away(self, gold: Tensor, vocabulary_size: int) -> Tensor:
        """The part of each position's target that other words than the gold one get, fp32, shape (N,)."""
        if self.tokens is None or self.probability is None:
            return self.share * (1 - 1 / vocabulary_size)
        return self.share * (self.probability * self.tokens.ne(gold[:, None])).sum(1)

    def among(self, allowed: Tensor) -> SoftTargets:
        """The same of allowed words, bool, shape (V,), alone; the gold word keeps all where there are none."""
        if self.tokens is None or self.probability is None:
            return self
        kept = self.probability * allowed[self.tokens]
        total = kept.sum(1)
        return SoftTargets(self.share * total.gt(0), self.tokens, kept / total[:, None].clamp(min=1e-30))


def among(words: Words, tokens: Tensor) -> Tensor:
    """The weights of tokens, int64, shape (N,), among words, as parts of the largest of their row; shape (N,)."""
    found, weights = words
    most = weights.amax(1).clamp(min=torch.finfo(weights.dtype).tiny)
    return (weights * found.eq(tokens[:, None])).sum(1) / most


def embedding_cosine(embeddings: Tensor, gold: Tensor, candidate: Tensor) -> Tensor:
    """The cosine of two words' input embeddings, fp32, without gradient; 0 where a vector is zero or not finite.

    ``embeddings`` have the shape (V, E) and any floating type; the words are int64, of shapes that broadcast.
    """
    table = embeddings.detach()
    return cosine_of(table[gold], table[candidate])


def cosine_of(left: Tensor, right: Tensor) -> Tensor:
    """The cosine over the last dimension, fp32; 0 where a vector is zero or not finite."""
    return F.cosine_similarity(left.float(), right.float(), dim=-1).nan_to_num(nan=0.0).clamp(-1.0, 1.0)


def synonym_words(synonyms: Tensor, *, gold: Tensor | None = None, embeddings: Tensor | None = None) -> Words:
    """The synonyms of the gold word: evenly, or with ``embeddings`` by exp(cos / 0.1), from 0.3 on.

    A position without synonyms (above the threshold) has weights of 0.

    Args:
        synonyms: int64, shape (N, K), -1 for none; see :meth:`.token_lists.TokenLists.tokens`.
        gold: int64, shape (N,), needed with ``embeddings``.
        embeddings: the input embedding matrix, shape (V, E), of any floating type; cosines are computed in fp32.
    """
    there = synonyms.ge(0)
    tokens = synonyms.clamp(min=0)
    scores = torch.zeros_like(tokens, dtype=torch.float32)
    if embeddings is not None:
        assert gold is not None
        # In blocks of columns: never (N, K, E) at once.
        columns = max(1, _BLOCK_ENTRIES // max(1, tokens.size(0) * embeddings.size(1)))
        blocks = [embedding_cosine(embeddings, gold[:, None], block) for block in tokens.split(columns, 1)]
        cosine = torch.cat(blocks, dim=1)
        there = there & cosine.ge(THRESHOLD)
        scores = cosine / TEMPERATURE
    # A row without any would be NaN.
    return tokens, scores.masked_fill(~there, -torch.inf).softmax(-1).nan_to_num(nan=0.0)


def nearest_words(embeddings: Tensor, gold: Tensor, neighbours: int = 10) -> Words:
    """The words whose input embeddings, shape (V, E), are nearest to that of the gold word, by exp(cos / 0.1).

    Cosines are computed in fp32, whatever the type of the embeddings, in blocks, never (N, V) at once, and on a CPU
    once for each word; elsewhere to find equal words would wait.
    """
    table = embeddings.detach().float()
    size, lengths = len(table), torch.linalg.vector_norm(table, dim=1).clamp(min=1e-12)
    words, place = gold, None
    if gold.device.type == "cpu" and not torch.compiler.is_compiling():
        words, place = gold.unique(return_inverse=True)
    found = []
    for block in words.split(max(1, _BLOCK_ENTRIES // size)):
        cosine = ((table[block] / lengths[block, None]) @ table.T).div_(lengths)
        cosine.scatter_(1, block[:, None], -torch.inf)
        found.append(largest(cosine, min(neighbours, size - 1)))
    cosine, tokens = (torch.cat(parts) for parts in zip(*found, strict=True))
    weights = (cosine / TEMPERATURE).softmax(1)
    return (tokens, weights) if place is None else (tokens[place], weights[place])


class Target(NamedTuple):
    """What N positions are to predict; ``mass`` and ``uniform`` sum to 1 at each."""

    tokens: Tensor  # int64, shape (N, K), the gold word first
    mass: Tensor  # fp32, shape (N, K)
    uniform: Tensor | None  # fp32, shape (N,), divided among all words that are allowed; None for none

    @classmethod
    def of(cls, gold: Tensor, soft: Sequence[SoftTargets]) -> Target:
        """The gold words, shape (N,), and soft targets beside them, as one list."""
        left = torch.ones_like(gold, dtype=torch.float32)
        tokens, masses, uniform = [gold[:, None]], [left[:, None]], None
        for share, words, probability in soft:
            left -= share
            if words is None or probability is None:
                uniform = share if uniform is None else uniform + share
            else:
                tokens.append(words)
                masses.append(share[:, None] * probability)
        return cls(torch.cat(tokens, 1), torch.cat(masses, 1), uniform)

    def part(self, rows: slice) -> Target:
        """Of some of the positions."""
        return Target(self.tokens[rows], self.mass[rows], None if self.uniform is None else self.uniform[rows])

    def mean(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        """The mean of words' scores, shape (N, V), under the target: shape (N,), at least fp32."""
        listed = scores.gather(1, self.tokens).to(accumulated(scores.dtype))
        # A forbidden word, at -inf, costs nothing where no target has it.
        mean = (self.mass * listed).where(self.mass != 0, 0.0).sum(1)
        return mean if self.uniform is None else mean + self.uniform * _mean_of(scores, allowed)

    def subtract_from(self, softmax: Tensor, allowed: Tensor | None) -> None:
        """Makes of the softmax of logits, shape (N, V), the gradient of the cross-entropy by them, in place."""
        softmax.scatter_add_(1, self.tokens, -self.mass.to(softmax.dtype))
        if self.uniform is not None:
            each = 1 / softmax.size(1) if allowed is None else allowed / allowed.sum()
            softmax -= self.uniform[:, None] * each


def _mean_of(values: Tensor, allowed: Tensor | None) -> Tensor:
    """The mean of the allowed words' values, shape (N,), at least fp32; ``values`` have the shape (N, V)."""
    kind = accumulated(values.dtype)
    if allowed is None:
        return values.mean(1, dtype=kind)
    return values.where(allowed, 0).sum(1, dtype=kind) / allowed.sum()


def soft_cross_entropy(
    logits: Tensor,
    log_probabilities: Tensor,
    target: Target,
    counted: Tensor,
    *,
    temperature: float = 1.0,
    allowed: Tensor | None = None,
) -> Tensor:
    """The cross-entropy of each position with a target, fp32, shape (N,), with gradient; 0 where it does not count.

    Args:
        logits: shape (N, V), any floating dtype.
        log_probabilities: fp32, shape (N, V), log-softmax of ``logits / temperature``, without gradient.
        target: what each position is to predict.
        counted: bool, shape (N,), the positions that count.
        temperature: the softmax temperature of footnote 11.
        allowed: bool, shape (V,), the words that a uniform distribution is over; None for all.
    """
    loss: Tensor = _SoftCrossEntropy.apply(logits, log_probabilities, target, counted, temperature, allowed)
    return loss


def first_derivative_alone(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses a second derivative, which would be without the part of the loss and say nothing of it."""

    @wraps(backward)
    def checked(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise TrueNegError(
                "a second derivative (create_graph=True) of soft targets, or of a loss without logits: found none; "
                "expected logits and an objective without soft targets"
            )
        return backward(ctx, *gradients)

    return checked


class _SoftCrossEntropy(torch.autograd.Function):
    """The loss and its gradient, (softmax - target) / temperature, in one (N, V) buffer.

    Autograd through the formula takes three, and a pass over each.
    """

    @staticmethod
    def forward(  # noqa: PLR0917  (torch passes by position)
        ctx: Any,
        logits: Tensor,
        log_probabilities: Tensor,
        target: Target,
        counted: Tensor,
        temperature: float,
        allowed: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(log_probabilities, counted, allowed, *target)
        ctx.temperature, ctx.dtype = temperature, logits.dtype
        return torch.where(counted, -target.mean(log_probabilities, allowed), 0.0)

    @staticmethod
    @first_derivative_alone
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        log_probabilities, counted, allowed, *target = ctx.saved_tensors
        result = log_probabilities.exp()
        Target(*target).subtract_from(result, allowed)
        result *= (gradient * counted / ctx.temperature)[:, None]
        return result.to(ctx.dtype), *[None] * 5
