"""What a yardstick asks of a model: its tokens, probabilities at places of token sequences, and hidden states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..corpus_counts import DEFAULT_SHARE, CountsShare, fit_counts_share
from ..data.indexed import token_counts
from ..data.tokenizer import PretrainedVocabulary, vocabulary_of
from ..errors import TrueNegError
from ..objectives import CorpusTargets, EncoderPasses, MaskedPredictions, Objective, Setting, TrueNegativeOptions
from ..synonyms.building import cache_path
from ..vocabulary import (
    BOS,
    EOS,
    FIRST_SYMBOLS,
    MASK_SYMBOL,
    SPECIAL_SYMBOLS,
    Vocabulary,
    read_symbols,
)
from ..workers import Progress, choose_device

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
    padding: int  # -1 where it has none
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

    def setting(self, options: TrueNegativeOptions) -> Setting:
        """What an objective, or a source of alternatives, can know of the words."""
        known: dict[str, Any] = {"symbols": self.symbols, "vocabulary": self.vocabulary, "folder": self.tables}
        return Setting(options=options, padding=self.padding, **known)

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
        start, stop = max(0, place - _AROUND), place + _AROUND + 1
        parts = (tokens[start:place], tokens[place + 1 : stop])
        before, after = (
            self.vocabulary.text_of(token for token in part if token not in self.special) for part in parts
        )
        return f"... {before}".rstrip() if start else before, f"{after} ...".lstrip() if stop < len(tokens) else after


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

    @cached_property
    def counts(self) -> NDArray[np.int64] | None:
        return token_counts(self.folder / "train", len(self.vocabulary))

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return self._encoder.encode_batch(texts)

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return self._encoder.encode_with_offsets(text)


Rows = Iterable[tuple[int, NDArray[np.floating]]]
"""The index of a place and the logarithms of the probabilities of all tokens there, shape (V,), in any order."""
WINDOW = 80  # tokens of a context, the first and the last included: what every model can read


@dataclass(kw_only=True)
class Scorer:
    """A model in evaluation mode, on the GPU where there is one.

    Lengths, int64, shape (B,), tell what is padding of tokens, (B, T), as a text may have the token ``padding``.
    """

    path: Path  # for messages
    model: Any
    embedding: Any  # the module of the encoder's input embeddings
    # of tokens, lengths, and bool, (B, T), which has the N places that are asked for: their logits, (N, V), row by row
    logits: Callable[[Tensor, Tensor, Tensor], Tensor]
    # of tokens, lengths, and the tokens whose segments count: every layer's hidden states, each of shape (B, T, H)
    layers: Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]]
    padding: int
    longest: int  # tokens that it reads at most
    cpu: bool = False
    updates: int = 0  # of its training; 0 where the files do not say
    batch_tokens: int = 4096  # of one batch, padding included
    counts: CorpusTargets | None = None  # mixed into every prediction
    share: CountsShare = DEFAULT_SHARE  # of the counts in it

    def __post_init__(self) -> None:
        self._device = choose_device(cpu=self.cpu)
        self.model = self.model.float().eval().to(self._device)

    @property
    def embeddings(self) -> Tensor:
        """The encoder's input embeddings, shape (V, E)."""
        embeddings: Tensor = self.embedding.weight.detach()
        return embeddings

    @torch.inference_mode()
    def log_probabilities(self, queries: Sequence[Query]) -> Iterator[tuple[list[int], Tensor]]:
        """The logarithms of the probabilities of every token at the places that are asked for, short sequences first:
        the indices of B queries and fp32, shape (B, V), on the device.
        """
        lengths_of_all = [len(query.tokens) for query in queries]
        longest = max(lengths_of_all, default=0)
        if longest > self.longest:
            raise TrueNegError(
                f"{self.path}: reads {self.longest} tokens, and the longest context has {longest}; expected a model "
                f"of at least {max(WINDOW, longest)} positions"
            )
        for batch in _batches(lengths_of_all, self.batch_tokens):
            tokens, lengths = self._padded([queries[index].tokens for index in batch])
            chosen = torch.zeros_like(tokens, dtype=torch.bool)
            chosen[range(len(batch)), [queries[index].position for index in batch]] = True
            yield batch, self._predict(tokens, lengths, chosen).float().log_softmax(-1)

    def rows(self, queries: Sequence[Query]) -> Rows:
        """The same one query after the other, fp32."""
        with Progress(total=len(queries), desc=self.path.name, unit=" places", leave=False) as bar:
            for batch, found in self.log_probabilities(queries):
                yield from zip(batch, found.cpu().numpy(), strict=True)
                bar.update(len(batch))

    def summed(
        self, asked: Iterable[tuple[int, Query, int]], size: int, done: Callable[[int], object] = bool
    ) -> NDArray[np.float64]:
        """Sums of log-probabilities, shape (size,): each query adds that of a token to the number before it; ``done``
        gets how many queries are over.
        """
        asked, sums = list(asked), np.zeros(size)
        for batch, found in self.log_probabilities([query for _, query, _ in asked]):
            wanted = torch.tensor([asked[index][2] for index in batch], device=found.device)
            values = found.gather(1, wanted[:, None]).squeeze(1).double().cpu().numpy()
            np.add.at(sums, [asked[index][0] for index in batch], values)
            done(len(batch))
        return sums

    @torch.inference_mode()
    def mean_states(self, sequences: Sequence[NDArray[np.int64]]) -> Tensor:
        """The mean over its tokens of the last layer's states of every sequence, fp32, shape (N, H), on the CPU."""
        means = dict[int, Tensor]()
        for batch in _batches([len(sequence) for sequence in sequences], self.batch_tokens):
            tokens, lengths = self._padded([sequences[index] for index in batch])
            states = self.layers(tokens, lengths, tokens)[-1].float()
            total = (states * attention_mask(tokens, lengths).unsqueeze(-1)).sum(1)
            means |= zip(batch, (total / lengths.unsqueeze(1)).cpu(), strict=True)
        return torch.stack([means[index] for index in range(len(sequences))])

    @torch.no_grad()
    def judge(
        self, objective: Objective, tokens: Tensor, target: Tensor, lengths: Tensor, *, with_layers: bool = False
    ) -> tuple[MaskedPredictions, EncoderPasses]:
        """What it predicts at masked tokens, judged as :meth:`.Objective.step` does it, and the passes that this took.

        Of the tokens, int64, shape (B, T), those are masked where the target has the original ones and no padding.
        ``lengths`` has the shape (B,). ``with_layers``: hidden states of all layers, also if the objective needs none.
        """
        objective.follow(self._device)
        tokens, target, lengths = (each.to(self._device) for each in (tokens, target, lengths))
        chosen = target.ne(self.padding)
        logits = self._predict(tokens, lengths, chosen)
        predicted = objective.predict(logits, target, tokens, chosen.reshape(-1).nonzero().squeeze(1))
        passes = self.passes(predicted, lengths, with_layers=with_layers or "states" in objective.reads)
        return objective.judge(predicted, passes), passes

    def passes(self, predicted: MaskedPredictions, lengths: Tensor, *, with_layers: bool) -> EncoderPasses:
        """What an objective, or a source of alternatives, asks of the model at predictions, on its device."""
        return EncoderPasses(
            predicted,
            TrueNegativeOptions(),
            embeddings=lambda: self.embeddings,
            encode=lambda given, *_: self.layers(given, lengths, predicted.original),
            with_layers=with_layers,
        )

    @torch.no_grad()
    def fit_share(self, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Chooses the share of the counts by masked samples: tokens, target and lengths as :meth:`judge` takes them."""
        assert self.counts is not None
        counts, parts = self.counts.to(self._device), list[Tensor]()
        for batch in batches:
            tokens, target, lengths = (each.to(self._device) for each in batch)
            chosen = target.ne(self.padding)
            positions, logits = chosen.reshape(-1).nonzero().squeeze(1), self.logits(tokens, lengths, chosen)
            parts.append(counts.evidence(logits, target[chosen], tokens, positions, self.padding).cpu())
        self.share = fit_counts_share(torch.cat(parts, dim=1).numpy() if parts else np.empty((4, 0)))

    def _predict(self, tokens: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
        """The logits, of the mixture with the counts where there are some."""
        logits = self.logits(tokens, lengths, chosen)
        if self.counts is None:
            return logits
        positions = chosen.reshape(-1).nonzero().squeeze(1)
        return self.counts.to(self._device).mixed(logits, tokens, positions, self.padding, self.share)

    def _padded(self, rows: Sequence[NDArray[np.int64]]) -> tuple[Tensor, Tensor]:
        """Tokens, int64, shape (B, T), and lengths, int64, shape (B,), on the device."""
        lengths = torch.tensor([len(row) for row in rows])
        tokens = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(row) for row in rows], batch_first=True, padding_value=max(self.padding, 0)
        )
        return tokens.to(self._device), lengths.to(self._device)


def attention_mask(tokens: Tensor, lengths: Tensor) -> Tensor:
    """bool, shape (B, T), false where a batch is filled up."""
    return torch.arange(tokens.size(1), device=tokens.device) < lengths.unsqueeze(1)


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Indices of sequences of similar length, of at most so many tokens with their padding."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if (len(batch) + 1) * lengths[index] > most and batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
