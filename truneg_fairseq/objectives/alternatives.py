"""Alternatives: the other words that may stand at a masked position.

Asked which words, a source of alternatives gives a soft target. Asked about a word, it is a detector of false
negatives. ``register_alternatives`` gives a class of one's own a name;
:func:`truneg_fairseq.testing.check_alternatives` says whether it keeps the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import TrueNegError
from .build import Setting
from .false_negatives import acceptance_model, context_cosine
from .passes import EncoderPasses, MaskedPredictions, gather_rows
from .soft_targets import SoftTargets, Words, among, embedding_cosine, nearest_words, synonym_words
from .token_lists import TokenLists

_LIKELIEST = 10


class Alternatives(nn.Module):
    """Other words that may stand at a masked position. Override :meth:`words`, :meth:`accepts`, or both.

    Neither has to look for positions that do not count. Of pieces of words (where :attr:`whole_words`), of the original
    word and of tokens that the vocabulary does not have nothing is accepted, whatever :meth:`accepts` says. What is
    looked up belongs into buffers, which keep their type in fp16 and are not saved; parameters are refused. Nothing may
    wait for the device.
    """

    whole_words: ClassVar[bool] = True
    """Whether a piece of a word keeps its whole target."""

    reads: ClassVar[frozenset[str]] = frozenset({"sentence"})
    """What a call needs beside the logits and labels: "sentence", the original tokens around; "states", those of every
    layer, for :meth:`~.passes.EncoderPasses.hidden_states`."""

    is_certain: ClassVar[bool] = False
    """Whether a detector takes its yes for certain: no threshold, and no candidate of a regression where it says no."""

    is_fitted: ClassVar[bool] = False
    """Whether a regression makes the acceptance of :meth:`feature`, of several such sources together."""

    def __init__(self, setting: Setting | None = None) -> None:
        """``setting`` is what a training knows; a class that looks up nothing of it needs no constructor."""
        super().__init__()

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        if cls.words is Alternatives.words and cls.accepts is Alternatives.accepts:
            raise TypeError(f"{cls.__name__}: expected words() or accepts() of its own")

    def words(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        """Which words, and how much of a soft target each gets: their sum is at most 1 at a position (more is scaled to
        1), and what it leaves stays with the original word.

        By default the model's ten likeliest words, by their acceptance.
        """
        tokens = batch.logits.detach().topk(min(_LIKELIEST, batch.logits.size(1)), 1).indices
        accepted = torch.stack([self.accepts(batch, column, model).float() for column in tokens.unbind(1)], 1)
        accepted = accepted * tokens.ne(batch.gold[:, None])
        return tokens, accepted / accepted.sum(1, keepdim=True).clamp(min=1)

    def accepts(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        """How acceptable tokens, int64, shape (N,), are in place of the original words, in [0, 1], shape (N,).

        By default the weight that :meth:`words` gives, as a part of the largest that it gives there.
        """
        return among(model.once(self, lambda: self.words(batch, model)), tokens)

    def flat(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        """As :meth:`words`, all with the same weight; their sum stays."""
        tokens, weights = model.once(self, lambda: self.words(batch, model))
        there = weights.gt(0)
        return tokens, there * (weights.sum(1) / there.sum(1).clamp(min=1))[:, None]

    def feature(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        """What a regression sees, shape (N,); NaN where it cannot judge."""
        return self.accepts(batch, tokens, model)

    def target(self, batch: MaskedPredictions, model: EncoderPasses, share: Any, *, flat: bool = False) -> SoftTargets:
        """The soft target with a share, in [0, 1], a number or a scalar."""
        made = self.flat(batch, model) if flat else model.once(self, lambda: self.words(batch, model))
        tokens, weights = made
        if tokens.shape != weights.shape or tokens.shape[:1] != batch.gold.shape or tokens.dtype != torch.int64:
            raise TrueNegError(
                f"{type(self).__name__}.words: found tokens {tuple(tokens.shape)} of {tokens.dtype} and weights "
                f"{tuple(weights.shape)}; expected int64 tokens and weights of shape ({len(batch.gold)}, K)"
            )
        counted = batch.whole_word if self.whole_words else batch.counted
        assert counted is not None
        weights = weights.float() * counted[:, None]
        total = weights.sum(1)
        # What rounding leaves of 1 is not for the original word.
        part = torch.where((total - 1).abs() < 1e-5, 1.0, total)
        probability = weights / part.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
        return SoftTargets(part.clamp(max=1) * share, tokens, probability)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = False) -> None:
        """As in torch, but not saved: a checkpoint holds the name of the source alone."""
        super().register_buffer(name, tensor, persistent)


class Table(Alternatives):
    """The synonyms of the original word, by ``exp(cosine / 0.1)`` of their input embeddings, from a cosine of 0.3 on;
    by their grades where the list has them; flat: all of them.
    """

    reads, is_certain = frozenset(), True
    grades: Tensor | None

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.lists = TokenLists(setting.table.pair_keys, setting.table.vocabulary_size)
        self.register_buffer("grades", None if setting.grades is None else F.pad(setting.grades, (0, 1)))

    def words(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        synonyms = self.lists.tokens(batch.gold)
        if self.grades is None:
            return synonym_words(synonyms, gold=batch.gold, embeddings=model.embeddings())
        slots, there = self.lists.slots(batch.gold)
        grades = self.grades[slots] * there
        return synonyms.clamp(min=0), grades / grades.sum(1, keepdim=True).clamp(min=1e-30)

    def flat(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        return synonym_words(self.lists.tokens(batch.gold))

    def accepts(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        return self.lists.contains(batch.gold, tokens).float()


class Embedding(Alternatives):
    """The ten words with the nearest input embeddings, by ``exp(cosine / 0.1)``; it accepts by the cosine."""

    whole_words, reads, is_fitted = False, frozenset(), True

    def __init__(self, setting: Setting) -> None:
        super().__init__()

    def words(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        return nearest_words(model.embeddings(), batch.gold)

    def feature(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        return embedding_cosine(model.embeddings(), batch.gold, tokens)


class Context(Alternatives):
    """Accepts by the mean over the encoder's layers of the cosine of its states, with the word and with the original
    one. It can judge the words alone that were filled in: the predictions, in ELECTRA the samples.
    """

    reads, is_fitted = frozenset({"sentence", "states"}), True

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._regression = acceptance_model(["context"])

    def feature(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        judged = gather_rows(model.filled()[0], batch.positions).eq(tokens)
        return context_cosine(*model.hidden_states()).where(judged, torch.nan)

    def accepts(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        return self._regression.probability({"context": self.feature(batch, tokens, model)}).nan_to_num(nan=0.0)


class Corpus(Alternatives):
    """What a text has between the same two neighbours (:mod:`~.corpus_targets`)."""

    whole_words = False

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.counts, self._padding = setting.corpus, setting.padding

    def words(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        found: Words = self.counts.targets(batch, self._padding)
        return found


class Uniform(Alternatives):
    """All words alike: plain label smoothing."""

    whole_words, reads = False, frozenset()

    def __init__(self, setting: Setting) -> None:
        super().__init__()

    def target(self, batch: MaskedPredictions, model: EncoderPasses, share: Any, *, flat: bool = False) -> SoftTargets:
        return SoftTargets(batch.counted.float() * share)  # (N, V) weights would be three buffers

    def words(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        size = batch.logits.size(1)
        tokens = torch.arange(size, device=batch.gold.device).expand(len(batch.gold), size)
        return tokens, torch.full_like(tokens, 1 / size, dtype=torch.float32)

    def accepts(self, batch: MaskedPredictions, tokens: Tensor, model: EncoderPasses) -> Tensor:
        return torch.ones_like(tokens, dtype=torch.float32)


class Teacher(Alternatives):
    """The 64 words that another model finds most probable, in the proportions of its probabilities."""

    whole_words = False

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._logits: Callable[[MaskedPredictions], Tensor] = setting.teacher  # as a module it would be trained

    def words(self, batch: MaskedPredictions, model: EncoderPasses) -> Words:
        logits = self._logits(batch).detach().float()
        best, tokens = logits.topk(min(64, logits.size(1)), dim=1)
        return tokens, best.softmax(1)
