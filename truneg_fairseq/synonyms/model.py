"""Synonyms from a checkpoint's input embeddings: mutual nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..vocabulary import Vocabulary
from .lists import ENGLISH_STOP_WORDS, Lexicon, is_content_word

DEFAULT_THRESHOLD = 0.6


@dataclass(frozen=True)
class CheckpointEmbeddings:
    """A checkpoint's input embeddings and the dictionary they belong to."""

    path: Path
    embeddings: Any  # a tensor of torch, shape (V, E), any floating dtype
    vocabulary: Vocabulary  # V tokens


class ModelLexicon(Lexicon):
    """The words that are mutually among each other's nearest by cosine, in the input embeddings of a checkpoint.

    The same pairs that ``--synonym-source model`` computes while training, of one moment: words of two letters and more
    that are not stop words, among each other's K nearest, above a threshold.
    """

    source = "model"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self, embeddings: CheckpointEmbeddings, threshold: float | None) -> None:
        self._of = embeddings
        self._count = 10
        self._threshold = DEFAULT_THRESHOLD if threshold is None else threshold
        words = self._of.vocabulary.words
        self._words = [token for token, word in enumerate(words) if word is not None and is_content_word(word)]
        if len(words) != len(self._of.embeddings):
            raise TrueNegError(
                f"{self._of.path}: has embeddings of {len(self._of.embeddings)} tokens, but the dictionary has "
                f"{len(words)}; expected a checkpoint that was trained with it"
            )
        self.options: dict[str, Any] = {"threshold": self._threshold}

    def synonyms(self, word: str) -> list[str]:
        """See :class:`~.lexicon.Lexicon`; the word itself and its neighbours, in alphabetical order."""
        return self._answers.get(word, [])

    @cached_property
    def _answers(self) -> dict[str, list[str]]:
        import torch

        from ..objectives.neighbours import mutual_keys, nearest_words, pairs_of_keys

        tokens = torch.tensor(self._words)
        is_word = torch.zeros(len(self._of.vocabulary), dtype=torch.bool)
        is_word[tokens] = True
        nearest = nearest_words(self._of.embeddings, is_word, tokens, self._count, self._threshold)
        answers: dict[str, set[str]] = {}
        words = self._of.vocabulary.words
        for gold, synonym in pairs_of_keys(mutual_keys(tokens, nearest)).tolist():
            word, name = words[gold], words[synonym]
            assert word is not None and name is not None
            answers.setdefault(word, {word}).add(name)
        return {word: sorted(names) for word, names in answers.items()}
