"""Text in a model's tokens, whoever made the model, and tokens as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ..data.indexed import token_counts
from ..data.tokenizer import PretrainedVocabulary, vocabulary_of
from ..synonyms.build import cache_path
from ..vocabulary import (
    BOS,
    EOS,
    FIRST_SYMBOLS,
    GPT2_SPACE,
    MASK_SYMBOL,
    SENTENCEPIECE_SPACE,
    SPECIAL_SYMBOLS,
    SUBWORD_NMT,
    SUBWORD_NMT_CONTINUATION,
    WORDPIECE_CONTINUATION,
    Vocabulary,
    gpt2_text,
    read_symbols,
)

_BROKEN = "\ufffd"  # of a piece that ends inside a character
_AROUND = 16  # tokens on each side of an example


class Query(NamedTuple):
    """A token sequence as the model reads it, and the place that is asked for."""

    tokens: NDArray[np.int64]  # int64, shape (T,)
    position: int


class Tokens(ABC):
    """A vocabulary with its tokenizer."""

    vocabulary: Vocabulary
    folder: Path | None = None  # of the binarized data that have this dictionary
    begin: int  # the token before every text, ``<s>`` or ``[CLS]``
    end: int  # the token after it
    padding: int
    mask: int | None  # None for a causal LM, which has no mask
    special: frozenset[int]  # tokens that no text has, and the unknown one

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of every text, without :attr:`begin` and :attr:`end`."""

    @abstractmethod
    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The tokens of a text, shape (N,), and the characters that each stands for, begin and end, shape (N, 2)."""

    @cached_property
    def counts(self) -> NDArray[np.int64] | None:
        """How often the training text has each token, shape (V,); None where it is not known."""
        return None

    @property
    def symbols(self) -> Sequence[str]:
        """The tokens of the tokenizer, which counts of a text are in; a model may have more embeddings."""
        return self.vocabulary.symbols

    @cached_property
    def _token_of(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for token, word in enumerate(self.vocabulary.words):
            if word is not None:
                found.setdefault(word, token)
        return found

    @cached_property
    def is_word(self) -> NDArray[np.bool_]:
        """Which tokens are whole words with a letter, shape (V,)."""
        return np.array([word is not None and any(map(str.isalpha, word)) for word in self.vocabulary.words])

    @property
    def tables(self) -> Path:
        """The folder of a synonym table that is not given: the data, or one of the cache."""
        return self.folder or cache_path(self.vocabulary, None).with_suffix("")

    def token(self, word: str) -> int:
        """The token of a whole word, -1 where it has none."""
        return self._token_of.get(self.vocabulary.spelled(word), -1)

    def framed(self, tokens: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Between :attr:`begin` and :attr:`end`, int64."""
        return np.array([self.begin, *tokens, self.end], dtype=np.int64)

    @cached_property
    def _full_stop(self) -> int:
        return int(self.encode_batch(["it."])[0][-1])

    def next_word(self, before: Sequence[int] | NDArray[np.int64], masks: int = 1) -> Query:
        """Asks for what comes after some tokens, first of several masks before a full stop; without a mask in the
        vocabulary the query ends with these tokens.
        """
        if self.mask is None:
            return Query(np.array([self.begin, *before], dtype=np.int64), len(before))
        return Query(self.framed([*before, *[self.mask] * masks, self._full_stop]), len(before) + 1)

    def in_sentence(self, tokens: Sequence[int], place: int) -> tuple[str, str]:
        """The text before and after a place, some tokens of it."""
        kind = self.vocabulary.tokenization
        symbols = ["<pad>" if token in self.special else self.vocabulary.tokens[token] for token in tokens]
        start, stop = max(0, place - _AROUND), place + _AROUND + 1
        before, after = join_tokens(symbols[start:place], kind), join_tokens(symbols[place + 1 : stop], kind)
        return f"... {before}".rstrip() if start else before, f"{after} ...".lstrip() if stop < len(symbols) else after


class DataTokens(Tokens):
    """The dictionary of binarized data, with the tokenizer beside it."""

    folder: Path

    def __init__(self, data: Path, tokenization: str = "auto", *, causal: bool = False) -> None:
        self.folder, symbols = data, read_symbols(data)
        if causal:  # fairseq's language_modeling adds no mask, and a sentence comes after the end of the one before
            symbols = symbols[:-1]
            self.begin, self.end, self.mask = EOS, EOS, None
        else:
            self.begin, self.end, self.mask = BOS, EOS, symbols.index(MASK_SYMBOL)
        self.padding = FIRST_SYMBOLS.index("<pad>")
        self.vocabulary = vocabulary_of(symbols, data, tokenization=tokenization)
        self.special = frozenset(symbols.index(symbol) for symbol in SPECIAL_SYMBOLS if symbol in symbols)

    @cached_property
    def _encoder(self) -> PretrainedVocabulary:
        return PretrainedVocabulary.load(self.folder)

    @override
    @cached_property
    def counts(self) -> NDArray[np.int64] | None:
        return token_counts(self.folder / "train", len(self.vocabulary))

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return self._encoder.encode_batch(texts)

    @override
    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return self._encoder.encode_with_offsets(text)


def word_of(token: int, vocabulary: Vocabulary) -> str:
    """What to call a token: its word, or its symbol where it is a piece."""
    symbol = vocabulary.tokens[token]
    if vocabulary.tokenization == "gpt2" and not vocabulary.words[token]:
        marker = GPT2_SPACE if symbol.startswith(GPT2_SPACE) else ""
        piece = gpt2_text([symbol.removeprefix(marker)])
        return symbol if _BROKEN in piece else marker + piece
    return vocabulary.words[token] or symbol


def join_tokens(symbols: Sequence[str], tokenization: str) -> str:
    """Readable text of a run of tokens; special symbols are left out."""
    ordinary = [symbol for symbol in symbols if symbol not in SPECIAL_SYMBOLS]
    if tokenization == "wordpiece":
        return " ".join(ordinary).replace(" " + WORDPIECE_CONTINUATION, "")
    if tokenization == SUBWORD_NMT:
        return " ".join(ordinary).replace(SUBWORD_NMT_CONTINUATION + " ", "")
    if tokenization == "sentencepiece":
        return "".join(ordinary).replace(SENTENCEPIECE_SPACE, " ").strip()
    if tokenization == "gpt2":
        return gpt2_text(ordinary).strip()
    return " ".join(ordinary)
