"""Mutual nearest neighbours, computed slowly and obviously."""

from __future__ import annotations

import numpy as np
import torch

from truneg_fairseq.objectives.neighbours import count_pairs


def cosines(embeddings: torch.Tensor) -> np.ndarray:
    """fp32, shape (V, V); NaN where a vector is zero. Dot products of small whole numbers are exact."""
    rows = embeddings.float().numpy()
    norms = [np.sqrt(np.float32(sum(x * x for x in row))) for row in rows]
    with np.errstate(invalid="ignore"):
        return np.array(
            [
                [np.float32(np.dot(a, b)) / (norm_a * norm_b) for b, norm_b in zip(rows, norms, strict=True)]
                for a, norm_a in zip(rows, norms, strict=True)
            ]
        )


def slow_neighbours(embeddings: torch.Tensor, words: list[int], count: int, threshold: float) -> dict[int, list[int]]:
    cosine = cosines(embeddings)
    answer = {}
    for word in words:
        near = [other for other in words if other != word and cosine[word, other] >= np.float32(threshold)]
        answer[word] = sorted(near, key=lambda other: (-cosine[word, other], other))[:count]
    return answer


def slow_pairs(embeddings: torch.Tensor, words: list[int], count: int, threshold: float) -> set[tuple[int, int]]:
    near = slow_neighbours(embeddings, words, count, threshold)
    return {(word, other) for word in words for other in near[word] if word in near[other]}


def pairs_of(keys: torch.Tensor) -> set[tuple[int, int]]:
    return {(key >> 32, key & 0xFFFFFFFF) for key in keys[: int(count_pairs(keys))].tolist()}
