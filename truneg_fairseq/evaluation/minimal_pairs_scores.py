"""Pseudo-log-likelihoods of sentences by a masked LM, and the accuracy on minimal pairs.

A sentence's score is the sum over its tokens of their log-probability where they are masked (Salazar et al., ACL 2020).
A word of several tokens is too easy to guess from its own rest: with the correction of Kauf and Ivanova (ACL 2023) the
word's tokens to the right of the masked one are masked with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ..results.result import Result
from ..workers import Progress
from .minimal_pairs import Pair
from .scorer import MaskedLm, Query
from .tokens import Tokens

TASK = "minimal pairs"
"""The task of all pairs together; those of single paradigms have their name behind it."""
_SENTENCES = 512  # at once


def pseudo_log_likelihoods(
    model: MaskedLm, tokens: Tokens, texts: Sequence[str], *, within_word: bool = True
) -> NDArray[np.float64]:
    """The scores of sentences, shape (N,); sentences of the same tokens have exactly the same score."""
    encoded = [tuple(each.tolist()) for each in tokens.encode_batch(texts)]
    different = list(dict.fromkeys(encoded))
    score: dict[tuple[int, ...], float] = {}
    for start in Progress(range(0, len(different), _SENTENCES), desc="sentences", unit=f" x {_SENTENCES}", leave=False):
        part = different[start : start + _SENTENCES]
        queries, gold, owner = [], [], []
        for number, sentence in enumerate(part):
            for query, token in _masked_copies(sentence, tokens, within_word):
                queries.append(query)
                gold.append(token)
                owner.append(number)
        sums = np.zeros(len(part))
        for batch, found in model.log_probabilities(queries):
            wanted = torch.tensor([gold[index] for index in batch], device=found.device)
            values = found.gather(1, wanted[:, None]).squeeze(1).double().cpu().numpy()
            np.add.at(sums, [owner[index] for index in batch], values)
        score.update(zip(part, sums.tolist(), strict=True))
    return np.array([score[sentence] for sentence in encoded])


def _masked_copies(sentence: Sequence[int], tokens: Tokens, within_word: bool) -> Iterator[tuple[Query, int]]:
    """The sentence with each of its tokens masked in turn, and the token."""
    whole, continues = tokens.framed(sentence), tokens.vocabulary.continues
    for position in range(1, len(whole) - 1):
        masked, end = whole.copy(), position + 1
        while within_word and end < len(whole) - 1 and continues[whole[end]]:
            end += 1
        masked[position:end] = tokens.mask
        yield Query(masked, position), int(whole[position])


def correct(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 where the good sentence of a pair has the higher score, 0.5 where both have the same, shape (N,).

    The scores are of the N good sentences, then of the bad ones, shape (2 N,).
    """
    good, bad = np.split(scores, 2)
    return np.where(good == bad, 0.5, good > bad)


def groups(pairs: Sequence[Pair]) -> dict[str, NDArray[np.int64]]:
    """The indices of the pairs of each paradigm."""
    found: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        found.setdefault(pair.paradigm, []).append(index)
    return {name: np.array(indices) for name, indices in found.items()}


def results(
    pairs: Sequence[Pair], right: NDArray[np.float64], model: str, seed: int, settings: Mapping[str, object]
) -> list[Result]:
    """As lines of a result file: all pairs, then each paradigm."""
    chosen = {TASK: np.arange(len(pairs))}
    chosen |= {f"{TASK}, {name}": indices for name, indices in groups(pairs).items()}
    return [
        Result(
            model=model,
            task=task,
            seed=seed,
            metrics={"accuracy": float(right[indices].mean())},
            examples={"accuracy": right[indices].tolist()} if task == TASK else {},
            example_ids=[pairs[index].name for index in indices.tolist()] if task == TASK else [],
            settings=dict(settings),
        )
        for task, indices in chosen.items()
    ]
