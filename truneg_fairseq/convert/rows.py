"""Two vocabularies of the same tokens in different orders: which row of one is which of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..corpora.text import read_lines
from ..data.tokenizer import BERT_TOKENS, FAIRSEQ_TOKENS, TOKENIZER, special_tokens, token_of, tokens_by_number
from ..errors import TrueNegError, reason
from ..files import read_json
from ..vocabulary import detect_tokenization, gpt2_encoder_beside, read_symbols, spell_symbols


@dataclass(frozen=True)
class TokenList:
    """The tokens of one side, by the rows of its embeddings."""

    tokens: tuple[str, ...]  # by row, with ``<mask>`` last in fairseq; the text that a number of GPT-2 stands for
    path: Path  # where they come from: fairseq's dict.txt, or a file of a Hugging Face model

    @property
    def tokenization(self) -> str | None:
        """One of :data:`truneg_fairseq.vocabulary.TOKENIZATIONS`; None for another."""
        try:
            return detect_tokenization(self.tokens)
        except TrueNegError:
            return None

    @cached_property
    def special_tokens(self) -> Mapping[str, str]:
        """The tokens of fairseq's special symbols."""
        return special_tokens(set(self.tokens), self.path.parent)

    @property
    def special_ids(self) -> dict[str, int]:
        """The rows of fairseq's special symbols."""
        row_of = {token: row for row, token in enumerate(self.tokens)}
        if missing := [token for token in self.special_tokens.values() if token not in row_of]:
            raise TrueNegError(
                f"{self.path}: no {', '.join(missing)} among its {len(self.tokens)} tokens; expected the special "
                f"tokens of BERT ({', '.join(BERT_TOKENS.values())}) or of RoBERTa ({', '.join(FAIRSEQ_TOKENS)})"
            )
        return {symbol: row_of[token] for symbol, token in self.special_tokens.items()}


def read_dictionary(data: Path) -> TokenList:
    """The dictionary of binarized data for masked_lm, or of the sentences of sentence_prediction."""
    folder = token_folder(data)
    path = folder / "dict.txt"
    tokens = spell_symbols(read_symbols(path), gpt2_encoder_beside(folder) or gpt2_encoder_beside(data))
    return TokenList(tuple(tokens), path)


def token_folder(data: Path) -> Path:
    """Where the dictionary of the text is: sentence_prediction has a folder for each sentence and for the labels."""
    sentences = data / "input0"
    return sentences if (sentences / "dict.txt").exists() and not (data / "dict.txt").exists() else data


def find_vocabulary(folders: Sequence[Path]) -> TokenList | None:
    """The first vocabulary in one of the folders; None if no folder has one.

    Looks in each folder for tokenizer.json, vocab.txt (BERT) and vocab.json (RoBERTa), in this order; then, beside
    binarized data, encoder.json, where it has RoBERTa's special tokens, which GPT-2's lacks.
    """
    names = (TOKENIZER, "vocab.txt", "vocab.json", "encoder.json")
    for path in (folder / name for folder in folders for name in names if (folder / name).exists()):
        found = TokenList(tuple(_read_tokens(path)), path)
        if path.name != "encoder.json" or FAIRSEQ_TOKENS.keys() <= set(found.tokens):
            return found
    return None


def vocabulary_of_dictionary(dictionary: TokenList) -> TokenList:
    """A vocabulary for Hugging Face in the dictionary's own order; pieces and words get BERT's special tokens."""
    bert_like = dictionary.tokenization in ("wordpiece", "words")
    specials = BERT_TOKENS if bert_like else FAIRSEQ_TOKENS
    return TokenList(tuple(specials.get(token, token) for token in dictionary.tokens), dictionary.path)


def rows_by_id(vocabulary: TokenList, dictionary: TokenList) -> Tensor:
    """Hugging Face's row of every id of a fairseq dictionary: a permutation, int64, shape (V,)."""
    tokens, specials = vocabulary.tokens, vocabulary.special_tokens
    row_of = {token: row for row, token in enumerate(tokens)}
    wanted = tuple(specials.get(token, token_of(token, tokens)) for token in dictionary.tokens)
    for found, in_path, other, not_in_path in (
        (wanted, dictionary.path, tokens, vocabulary.path),
        (tokens, vocabulary.path, wanted, dictionary.path),
    ):
        if strangers := list((Counter(found) - Counter(other)).elements()):
            raise TrueNegError(
                f"{in_path}: {len(strangers)} of its {len(found)} tokens are not in {not_in_path} (e.g. "
                f"{strangers[0]!r}); expected one vocabulary, dict.txt being the model's without "
                f"{', '.join(specials.values())}: binarize the data with this model's vocabulary"
            )
    return torch.tensor([row_of[token] for token in wanted], dtype=torch.int64)


def _read_tokens(path: Path) -> list[str]:
    """The tokens of one of the files that :func:`find_vocabulary` looks for, by row."""
    if path.name == "vocab.txt":
        return list(read_lines(path))
    if path.name == TOKENIZER:
        from tokenizers import Tokenizer

        try:
            tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise TrueNegError(f"{path}: cannot be read ({reason(error)}); expected a tokenizer") from None
        row_of = tokenizer.get_vocab(with_added_tokens=True)
    else:
        row_of = read_json(path, dict[str, int], expected="tokens and their numbers")
    return tokens_by_number(row_of, path)
