"""Synonyms without a lexicon: mutual nearest neighbours in an embedding matrix.

No host-device sync: every shape is known beforehand, and an empty place is -1 among neighbours and a
sentinel among keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .hard_correction import ID_BITS, corrected_predictions, pair_keys

_ID_MASK = (1 << ID_BITS) - 1
# Larger than every token id: a pair of it is never looked up, and its key sorts before the closing sentinel.
_NO_TOKEN = torch.iinfo(torch.int32).max
# Scores held at once; an intermediate value of one takes 8 bytes.
_BLOCK_SCORES = 1 << 22


@torch.no_grad()
def nearest_words(embeddings: Tensor, is_word: Tensor, rows: Tensor, count: int, threshold: float) -> Tensor:
    """The nearest words of some tokens by cosine, computed in fp32.

    Equal cosines are ranked by token id, so that the answer is the same on every worker whatever the device's sort
    does with ties. A token is not its own neighbour; zero vectors and those with NaN have and are no neighbours.

    Args:
        embeddings: shape (V, E), any floating dtype.
        is_word: bool, shape (V,), which tokens can be neighbours.
        rows: int64, shape (R,), the tokens to answer for.
        count: the most neighbours of a token, K <= V.
        threshold: the smallest cosine of a neighbour, > 0.

    Returns:
        int32, shape (R, K), token ids from near to far, then -1.
    """
    weight = embeddings.float()
    norms = torch.linalg.vector_norm(weight, dim=1)
    size = len(weight)
    backwards = torch.arange(size - 1, -1, -1, device=weight.device)
    found = []
    for block in rows.split(max(1, _BLOCK_SCORES // size)):
        cosine = (weight[block] @ weight.T) / (norms[block, None] * norms)
        near = cosine.ge(threshold) & is_word
        near.scatter_(1, block[:, None], False)
        # The bits of positive fp32 numbers are in the numbers' order, so that one integer holds cosine and id.
        ranks = (cosine.view(torch.int32).long() << ID_BITS) + backwards
        best = torch.where(near, ranks, -1).topk(count, dim=1).values
        found.append(torch.where(best.ge(0), size - 1 - (best & _ID_MASK), -1).int())
    return torch.cat(found)


def mutual_keys(words: Tensor, neighbours: Tensor) -> Tensor:
    """The look-up keys of the ordered pairs of words that are among each other's neighbours.

    Args:
        words: int64, shape (W,), token ids.
        neighbours: int32, shape (W, K), the neighbours of each word, -1 for none; see :func:`nearest_words`.

    Returns:
        int64, shape (W * K + 1,), ascending, as :func:`truneg_fairseq.objectives.pair_keys` makes them; the places of
        pairs that are not mutual hold sentinels at the end.
    """
    word = words[:, None].expand(neighbours.shape).reshape(-1)
    neighbour = neighbours.reshape(-1).long()
    there = neighbour.ge(0)
    # Of the table of all pairs: is the word listed for its neighbour too?
    mutual = corrected_predictions(neighbour, word, there, _keys_where(there, word, neighbour))
    return _keys_where(mutual, word, neighbour)


def count_pairs(keys: Tensor) -> Tensor:
    """How many pairs the keys of :func:`mutual_keys` hold, int64 scalar on their device."""
    return (keys >> ID_BITS).ne(_NO_TOKEN).sum()


def pairs_of_keys(keys: Tensor) -> Tensor:
    """The pairs that the keys of :func:`mutual_keys` hold.

    Returns:
        int64, shape (P, 2), (gold, synonym) token ids in ascending order. P is known to the device only: this waits.
    """
    gold = keys >> ID_BITS
    return torch.stack([gold, keys & _ID_MASK], dim=1)[gold.lt(_NO_TOKEN)]


def _keys_where(valid: Tensor, word: Tensor, neighbour: Tensor) -> Tensor:
    return pair_keys(torch.where(valid, word, _NO_TOKEN), torch.where(valid, neighbour, _NO_TOKEN))
