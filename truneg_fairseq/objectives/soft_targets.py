"""Soft targets: a share of the target goes from the gold word to other words (target smoothing), and position weights.

``L_k = (1 - a) CE(w_k) + a sum_r q_k(r) CE(r)``, or a sum of several such shares, where ``q_k`` is

- uniform over the vocabulary: plain label smoothing (Szegedy et al., 2016);
- over the synonyms of the gold word: evenly, by ``exp(cos / t)`` above a threshold, or by a Gaussian of their rank by
  cosine; cosines are of the input embeddings, or of given word vectors;
- over the words with the nearest input embeddings, by ``exp(cos / t)``;
- over what else a corpus has between the same two neighbours (:mod:`~.corpus_targets`);
- over the most probable words of a better model;
- the model's own distribution where it reads the unmasked sentence (self-evolution learning, arXiv 2305.15275).

q carries no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .acceptance import embedding_cosine
from .cross_entropy import MaskedCrossEntropy

# Embedding entries gathered at once for the cosines of synonyms.
_BLOCK_ENTRIES = 1 << 22
# Standard deviation of the Gaussian over ranks; D2GPo's release has one so wide that it is nearly uniform.
_RANK_DEVIATION = 3.0


class SoftTargets(NamedTuple):
    """The distributions q of N positions; all of it without gradient."""

    share: Tensor  # fp32, shape (N,), the share a of the target that q gets; 0 leaves the gold word all of it
    # int64, shape (N, K), the words of q, any word where ``probability`` is 0; None otherwise
    tokens: Tensor | None = None
    # fp32, shape (N, K) with ``tokens``; shape (N, V) without; None for the uniform distribution
    probability: Tensor | None = None

    def given_away(self, gold: Tensor, vocabulary_size: int) -> Tensor:
        """The part of each position's target that other words than the gold one (int64, shape (N,)) get, fp32, (N,)."""
        if self.probability is None:
            return self.share * (1 - 1 / vocabulary_size)
        if self.tokens is None:
            return self.share * (1 - self.probability.gather(1, gold[:, None]).squeeze(1))
        return self.share * (self.probability * self.tokens.ne(gold[:, None])).sum(1)


def uniform_targets(counted: Tensor, weight: float) -> SoftTargets:
    """Plain label smoothing.

    Args:
        counted: bool, shape (N,), the positions that count.
        weight: the share a, in [0, 1].
    """
    return SoftTargets(counted.float() * weight)


def self_targets(logits: Tensor, counted: Tensor, weight: float) -> SoftTargets:
    """The model's own distribution where it reads the unmasked sentence.

    Args:
        logits: shape (N, V), any floating dtype; the softmax over the vocabulary is computed in fp32.
        counted: bool, shape (N,), the positions that count.
        weight: the share a, in [0, 1].
    """
    probability = F.softmax(logits.detach(), dim=-1, dtype=torch.float32)
    return SoftTargets(counted.float() * weight, probability=probability)


def teacher_targets(logits: Tensor, counted: Tensor, weight: float, words: int = 64) -> SoftTargets:
    """The most probable words of another model, in the proportions of their probabilities.

    Args:
        logits: shape (N, V), of the other model, any floating dtype; the softmax is computed in fp32.
        counted: bool, shape (N,), the positions that count.
        weight: the share a, in [0, 1].
        words: how many.
    """
    best, tokens = logits.detach().float().topk(min(words, logits.size(1)), dim=1)
    return SoftTargets(counted.float() * weight, tokens, best.softmax(1))


class SynonymLists(nn.Module):
    """The synonyms of each token as rows of a padded list, to be looked up without waiting for the device.

    Args:
        gold: int64, shape (P,), ascending; the gold token of each pair.
        synonym: int64, shape (P,).
        vocabulary_size: V.
        scores: fp32, shape (P,), where they are known beforehand: q is their softmax over a list, see :meth:`targets`.
    """

    rows: Tensor
    lists: Tensor
    bits: Tensor | None

    def __init__(self, gold: Tensor, synonym: Tensor, vocabulary_size: int, scores: Tensor | None = None) -> None:
        super().__init__()
        words, row, counts = gold.unique_consecutive(return_inverse=True, return_counts=True)
        longest = int(counts.max()) if len(counts) else 1
        first = counts.cumsum(0) - counts
        # The last list is empty: that of tokens without synonyms.
        lists = torch.full((len(words) + 1, longest), -1, dtype=torch.int32)
        place = row, torch.arange(len(gold)) - first[row]
        lists[place] = synonym.int()
        bits = None
        if scores is not None:
            padded = torch.full(lists.shape, -torch.inf)
            padded[place] = scores
            # As integers: the trainer makes 16-bit numbers of a floating-point buffer.
            bits = padded.softmax(1).nan_to_num(nan=0.0).view(torch.int32)
        rows = torch.full((vocabulary_size,), len(words), dtype=torch.int32)
        rows[words] = torch.arange(len(words), dtype=torch.int32)
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("lists", lists, persistent=False)
        self.register_buffer("bits", bits, persistent=False)

    def of(self, gold: Tensor) -> Tensor:
        """The synonyms of each gold token, int64, shape (N, K), then -1."""
        return self.lists[self.rows[gold].long()].long()

    def targets(self, gold: Tensor, counted: Tensor, weight: float) -> SoftTargets:
        """q over the synonyms of each gold token, by the ``scores``.

        Args:
            gold: int64, shape (N,).
            counted: bool, shape (N,), the positions whose gold word is a whole word.
            weight: the share a, in [0, 1]; a position without synonyms keeps all for its gold word.
        """
        assert self.bits is not None
        row = self.rows[gold].long()
        probability = self.bits[row].view(torch.float32)
        there = probability.gt(0).any(1) & counted
        return SoftTargets(there.float() * weight, self.lists[row].long().clamp(min=0), probability)


def cosine_scores(cosine: Tensor, *, temperature: float, threshold: float) -> Tensor:
    """Scores of pairs whose cosines are known, fp32, shape (P,): cos / t, and -inf below the threshold."""
    return (cosine / temperature).masked_fill(cosine < threshold, -torch.inf)


def rank_scores(gold: Tensor, cosine: Tensor, deviation: float = _RANK_DEVIATION) -> Tensor:
    """Scores of pairs, fp32, shape (P,): the logarithm of a Gaussian of the rank among the synonyms of a gold token.

    The nearest has rank 1, the gold token itself would have 0 (data-dependent Gaussian prior: Li et al., ICLR 2020).

    Args:
        gold: int64, shape (P,), ascending.
        cosine: fp32, shape (P,).
        deviation: the standard deviation, in ranks.
    """
    order = torch.argsort(cosine, descending=True, stable=True)
    order = order[torch.argsort(gold[order], stable=True)]
    _, row, counts = gold.unique_consecutive(return_inverse=True, return_counts=True)
    rank = torch.empty_like(cosine)
    rank[order] = 1.0 + torch.arange(len(gold)) - (counts.cumsum(0) - counts)[row]
    return -rank.square() / (2 * deviation**2)


def synonym_targets(
    synonyms: Tensor,
    counted: Tensor,
    weight: float,
    *,
    gold: Tensor | None = None,
    embeddings: Tensor | None = None,
    temperature: float = 0.1,
    threshold: float = 0.3,
) -> SoftTargets:
    """q over the synonyms of the gold word: evenly, or with ``embeddings`` by exp(cos / temperature).

    Args:
        synonyms: int64, shape (N, K), -1 for none; see :meth:`SynonymLists.of`.
        counted: bool, shape (N,), the positions whose gold word is a whole word.
        weight: the share a, in [0, 1]; a position without synonyms (above the threshold) keeps all for its gold word.
        gold: int64, shape (N,), needed with ``embeddings``.
        embeddings: shape (V, E), the input embedding matrix, any floating dtype; cosines are computed in fp32.
        temperature: t, > 0.
        threshold: the smallest cosine of a word that takes part.
    """
    there = synonyms.ge(0) & counted[:, None]
    tokens = synonyms.clamp(min=0)
    scores = torch.zeros_like(tokens, dtype=torch.float32)
    if embeddings is not None:
        assert gold is not None
        cosine = _cosines(embeddings, gold, tokens)
        there = there & cosine.ge(threshold)
        scores = cosine / temperature
    # A row without any would be NaN.
    probability = scores.masked_fill(~there, -torch.inf).softmax(-1).nan_to_num(nan=0.0)
    return SoftTargets(there.any(1).float() * weight, tokens, probability)


def embedding_targets(
    embeddings: Tensor, gold: Tensor, counted: Tensor, weight: float, *, temperature: float = 0.1, neighbours: int = 10
) -> SoftTargets:
    """q over the words whose input embeddings are nearest to that of the gold word, by exp(cos / temperature).

    Args:
        embeddings: shape (V, E), the input embedding matrix, any floating dtype; cosines are computed in fp32.
        gold: int64, shape (N,).
        counted: bool, shape (N,), the positions that count.
        weight: the share a, in [0, 1].
        temperature: t, > 0.
        neighbours: how many words.
    """
    directions = F.normalize(embeddings.detach().float(), dim=1)
    cosine = directions[gold] @ directions.T
    cosine.scatter_(1, gold[:, None], -torch.inf)
    nearest, tokens = cosine.topk(min(neighbours, cosine.size(1) - 1), dim=1)
    return SoftTargets(counted.float() * weight, tokens, (nearest / temperature).softmax(1))


def _cosines(embeddings: Tensor, gold: Tensor, tokens: Tensor) -> Tensor:
    """The cosine of each gold token and each of its (N, K) tokens, in blocks of columns: never (N, K, E) at once."""
    columns = max(1, _BLOCK_ENTRIES // max(1, tokens.size(0) * embeddings.size(1)))
    return torch.cat([embedding_cosine(embeddings, gold[:, None], block) for block in tokens.split(columns, 1)], dim=1)


def soft_cross_entropy(
    logits: Tensor,
    gold: Tensor,
    kept: Tensor,
    soft: Sequence[SoftTargets] = (),
    *,
    temperature: float = 1.0,
    ignore_index: int,
) -> MaskedCrossEntropy:
    """Cross-entropy with soft targets and a weight a position, summed; computed in fp32.

    Args:
        logits: shape (N, V), any floating dtype.
        gold: int64, shape (N,); positions equal to ``ignore_index`` do not count.
        kept: fp32, shape (N,), the share of each position's loss that is kept, in [0, 1].
        soft: the distributions beside the gold words, each with its share; together at most 1.
        temperature: the softmax temperature of footnote 11; logits are divided by it.
        ignore_index: the id of padding.

    Returns:
        The sum to minimise and the plain sum, both 0 (never NaN) where no position is left.
    """
    with torch.no_grad():
        plain_log = F.log_softmax(logits.detach(), dim=-1, dtype=torch.float32)
        plain = F.nll_loss(plain_log, gold, ignore_index=ignore_index, reduction="sum")
        tempered = plain_log
        if temperature != 1.0:
            tempered = F.log_softmax(logits.detach() / temperature, dim=-1, dtype=torch.float32)
        weight = torch.where(gold.ne(ignore_index), kept, 0.0)
    objective: Tensor = _SoftCrossEntropy.apply(logits, tempered, gold, weight, temperature, *soft)
    return MaskedCrossEntropy(objective, plain)


class _SoftCrossEntropy(torch.autograd.Function):
    """The sum and its gradient, weight x (softmax - target) / temperature, in one (N, V) buffer.

    Autograd through the formula takes three, and a pass over each.
    """

    @staticmethod
    def forward(  # noqa: PLR0917  (torch passes by position)
        ctx: Any,
        logits: Tensor,
        log_probabilities: Tensor,
        gold: Tensor,
        weight: Tensor,
        temperature: float,
        *soft: SoftTargets,
    ) -> Tensor:
        ctx.save_for_backward(log_probabilities, gold, weight, *(tensor for each in soft for tensor in each))
        ctx.temperature, ctx.dtype = temperature, logits.dtype
        expected = (1 - _shares(soft, weight)) * log_probabilities.gather(1, gold[:, None]).squeeze(1)
        for share, tokens, probability in soft:
            if probability is None:
                spread = log_probabilities.mean(1)
            else:
                chosen = log_probabilities if tokens is None else log_probabilities.gather(1, tokens)
                spread = torch.einsum("nk,nk->n", probability, chosen)  # no (N, V) product in between
            expected = expected + share * spread
        return -(weight * expected).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        log_probabilities, gold, weight, *saved = ctx.saved_tensors
        soft = [SoftTargets(*saved[start : start + 3]) for start in range(0, len(saved), 3)]
        result = log_probabilities.exp()
        for share, tokens, probability in soft:
            if probability is None:
                result -= share[:, None] / result.size(1)
            elif tokens is None:
                result.addcmul_(probability, share[:, None], value=-1)
            else:
                result.scatter_add_(1, tokens, -share[:, None] * probability)
        result.scatter_add_(1, gold[:, None], _shares(soft, weight)[:, None] - 1)
        result *= (gradient * weight / ctx.temperature)[:, None]
        return result.to(ctx.dtype), *[None] * (4 + len(soft))


def _shares(soft: Sequence[SoftTargets], like: Tensor) -> Tensor:
    return sum((each.share for each in soft), torch.zeros_like(like))
