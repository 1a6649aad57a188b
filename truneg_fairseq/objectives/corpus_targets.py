"""Soft targets from a corpus: what else stands between the same two neighbours in its text.

With ``c`` the counts and ``D`` the absolute discount, the word w between the neighbours l and r has

``q(w) = (max(c(l,w,r) - D, 0) + D u(l,r) b(w)) / c(l,r)``, and b alone where nothing was counted between l and r;

``b(w)`` is proportional to ``p(w | l) p(r | w)``, each ``p(y | x) = (max(c(x,y) - D, 0) + D u(x) f(y)) / c(x)``, and f
alone after what was never counted; ``f`` is the frequency of a word, ``u`` the number of different words that were
counted. Of the gold word itself the occurrence that is being predicted is left out of each count. The candidates are
the K words that are most frequent between l and r, those after l and those before r; q is over these and sums to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..corpus_counts import CorpusCounts, CountsShare, most_frequent
from .passes import MaskedPredictions
from .soft_targets import Words
from .token_lists import TokenLists

_NOT_LEFT_OUT = -1  # in place of a gold word


# What was counted in a row without this occurrence of the gold word: how much, and how many different words; int64.
_Row = tuple[Tensor, Tensor]


class CorpusTargets(nn.Module):
    """The counts of a corpus, to be looked up without waiting for the device; V is the size of the vocabulary."""

    words: Tensor
    pair_starts: Tensor

    def __init__(self, counts: CorpusCounts) -> None:
        super().__init__()
        size, most, pairs = len(counts.words), counts.most, counts.pairs
        self.discount = counts.discount
        self.register_buffer("words", torch.from_numpy(counts.words), persistent=False)
        self.pairs, self.triples = (TokenLists(each.keys, size, each.counts) for each in (pairs, counts.triples))
        # To find where a row begins takes longer, and there are as many rows as candidates.
        starts = torch.searchsorted(self.pairs.keys, torch.arange(size + 1) * size)
        self.register_buffer("pair_starts", starts, persistent=False)
        reversed_keys = pairs.keys % size * size + pairs.keys // size
        order = reversed_keys.argsort()
        keys, numbers = reversed_keys[order], pairs.counts[order]
        self.after = TokenLists(pairs.keys[most_frequent(pairs.keys, pairs.counts, size, most)], size)
        self.before = TokenLists(keys[most_frequent(keys, numbers, size, most)], size)

    def targets(self, predicted: MaskedPredictions, padding: int) -> Words:
        """q at the masked positions, between the neighbours that the original sentences have there.

        A position keeps all for its gold word where a neighbour is missing (at the ends of a sequence) or never occurs
        in the counted text, such as ``<s>``. ``padding`` is the id of padding.
        """
        left, right, there = self._neighbours(predicted.original, predicted.positions, padding)
        gold = predicted.gold.clamp(max=len(self.words) - 1)
        counted = predicted.counted & there & predicted.gold.lt(len(self.words))
        return self.between(left, gold, right, counted)

    def mixed(self, logits: Tensor, tokens: Tensor, positions: Tensor, padding: int, share: CountsShare) -> Tensor:
        """Logarithms of ``(1 - a) p + a q``, fp32, shape (N, V), with p of the model and q of the counts: a look-up.

        q is between the neighbours as the model reads them: beside a masked token, which no text has, p stands alone.
        Nothing is left out of the counts, so the text that is predicted must not be the text that was counted.

        Args:
            logits: the model's, shape (N, V).
            tokens: the model's input, int64, shape (B, T).
            positions: of the predictions in the flat input, int64, shape (N,).
            padding: the id of padding.
            share: a, by how often the place was counted.
        """
        words, q, count, types = self._look_up(tokens, positions, padding)
        log = logits.float().log_softmax(-1)
        given = (q.gt(0).any(1) * share.of(count, types))[:, None]
        mixed = (log.exp() * (1 - given)).scatter_add(1, words, given * q)
        return torch.where(given > 0, mixed.clamp(min=torch.finfo(torch.float32).tiny).log(), log)

    def evidence(self, logits: Tensor, gold: Tensor, tokens: Tensor, positions: Tensor, padding: int) -> Tensor:
        """What :func:`~..corpus_counts.fit_counts_share` needs of the places that the counts answer, float64."""
        words, q, count, types = self._look_up(tokens, positions, padding)
        model = logits.float().softmax(-1).gather(1, gold[:, None]).squeeze(1)
        by_counts = (q * words.eq(gold[:, None])).sum(1)
        return torch.stack([each.double() for each in (model, by_counts, count, types)])[:, q.gt(0).any(1)]

    def _look_up(self, tokens: Tensor, positions: Tensor, padding: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Words and q of text that was not counted; how often the text has each place, and with how many different
        words, int64, shape (N,).
        """
        left, right, there = self._neighbours(tokens, positions, padding)
        found = self.between(left, torch.full_like(left, _NOT_LEFT_OUT), right, there)
        return *found, *self._between(left * len(self.words) + right)

    def _between(self, neighbours: Tensor) -> _Row:
        """What was counted between two neighbours."""
        start, end = self.triples.place(neighbours)
        return self.triples.sums[end] - self.triples.sums[start], end - start

    def _neighbours(self, rows: Tensor, positions: Tensor, padding: int) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens of ``rows``, shape (B, T), on the left and on the right, and where both are there; shape (N,)."""
        flat, width, size = rows.reshape(-1), rows.size(1), len(self.words)
        flat = flat.where(flat < size, padding)  # fairseq's tasks add tags of languages to dictionaries
        column = positions % width
        left = flat[(positions - 1).clamp(min=0)].where(column > 0, padding)
        right = flat[(positions + 1).clamp(max=len(flat) - 1)].where(column < width - 1, padding)
        return left, right, left.ne(padding) & right.ne(padding)

    def between(self, left: Tensor, gold: Tensor, right: Tensor, counted: Tensor) -> Words:
        """q of gold tokens (:data:`_NOT_LEFT_OUT` where the text was not counted) between two neighbours.

        The tokens, int64, and ``counted``, bool, the positions that count, have the shape (N,). Where there is no
        q the weights are 0.
        """
        discount = self.discount
        counted = counted & self.words[left].gt(0) & self.words[right].gt(0)
        neighbours = left * len(self.words) + right
        lists = self.triples.tokens(neighbours), self.after.tokens(left), self.before.tokens(right)
        left, gold, right, neighbours = (each[:, None] for each in (left, gold, right, neighbours))

        tokens = torch.cat(lists, 1).sort(1).values
        fresh = tokens.diff(dim=1, prepend=tokens.new_full((len(tokens), 1), -1)).gt(0)  # not -1, and each once
        there = fresh & counted[:, None]
        tokens = tokens.clamp(min=0)
        own = tokens.eq(gold).long()

        total = self.words.sum()
        frequency = (self.words[tokens] - own).clamp(min=0) / total
        row = self._row(left, self.pairs.count(left, gold) * gold.ge(0))
        after_left = _discounted(self.pairs.count(left, tokens) - own, row, discount, frequency)
        row = self._row(tokens, self.pairs.count(gold, right) * own)
        before_right = _discounted(self.pairs.count(tokens, right) - own, row, discount, self.words[right] / total)
        backed_off = _normalised(after_left * before_right * there)

        row = _without_one(*self._between(neighbours), self.triples.count(neighbours, gold) * gold.ge(0))
        found = self.triples.count(neighbours, tokens)
        return tokens, _normalised(_discounted(found - own, row, discount, backed_off) * there)

    def _row(self, first: Tensor, count: Tensor) -> _Row:
        """The pairs that begin with ``first``, one of a pair that was counted ``count`` times left out."""
        start, end = self.pair_starts[first], self.pair_starts[first + 1]
        return _without_one(self.pairs.sums[end] - self.pairs.sums[start], end - start, count)


def _without_one(total: Tensor, different: Tensor, count: Tensor) -> _Row:
    """A row without one of what was counted ``count`` times in it, 0 for never."""
    return total - count.gt(0).long(), different - count.eq(1).long()


def _discounted(count: Tensor, row: _Row, discount: float, otherwise: Tensor) -> Tensor:
    """Absolute discounting: the probability of what was counted ``count`` times in a row."""
    total, different = row
    seen = (count - discount).clamp(min=0) + discount * different * otherwise
    return torch.where(total > 0, seen / total.clamp(min=1), otherwise)


def _normalised(weights: Tensor) -> Tensor:
    """Rows that sum to 1, or to 0 where all is 0."""
    return weights / weights.sum(1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
