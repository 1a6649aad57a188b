"""The vocabularies of both sides: which row of one is which of the other, and a Hugging Face folder's tokenizer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data.text import read_lines
from ..data.tokenizer import (
    BERT_TOKENS,
    FAIRSEQ_TOKENS,
    TOKENIZER,
    read_merges,
    read_tokenizer,
    special_tokens,
    token_of,
    tokens_by_number,
)
from ..errors import TrueNegError
from ..files import read_json
from ..vocabulary import ROLES, detect_tokenization, is_cased, read_symbols, spell_symbols

# What splits text in tokenizer.json; the rest are special tokens and their places.
_SPLITTING = ("normalizer", "pre_tokenizer", "model", "decoder")


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
        return {symbol: row_of[token] for symbol, token in self.special_tokens.items()}


def read_dictionary(data: Path) -> TokenList:
    """The dictionary of binarized data for masked_lm, or of the sentences of sentence_prediction."""
    folder = token_folder(data)
    encoders = [path for path in (folder / "encoder.json", data / "encoder.json") if path.exists()]
    tokens = spell_symbols(read_symbols(folder), encoders[0] if encoders else None)
    return TokenList(tuple(tokens), folder / "dict.txt")


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
        if path.name == "vocab.txt":
            tokens = list(read_lines(path))
        elif path.name == TOKENIZER:
            tokens = tokens_by_number(read_tokenizer(path).get_vocab(), path)
        else:
            tokens = tokens_by_number(read_json(path, dict[str, int], expected="tokens and their numbers"), path)
        if path.name != "encoder.json" or FAIRSEQ_TOKENS.keys() <= set(tokens):
            return TokenList(tuple(tokens), path)
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


def build_tokenizer(
    vocabulary: TokenList,
    dictionary: TokenList,
    folders: Sequence[Path],
    *,
    double_separator: bool | None,
    max_length: int,
    segments: bool,
) -> Any:
    """The data's tokenizer as one of transformers: BertTokenizer or RobertaTokenizer where these do the same.

    None where the data do not say how their text was split: no vocab.txt, no tokenizer.json, no vocab.bpe, and a
    dictionary that is not of WordPiece. Pairs have two separators between them with ``double_separator``; None for what
    is usual. With ``segments`` the model knows the second sentence by its token type.
    """
    from tokenizers import AddedToken, models
    from transformers import BertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

    bert_like = vocabulary.special_tokens == BERT_TOKENS
    double = not bert_like if double_separator is None else double_separator
    ids = {token: row for row, token in enumerate(vocabulary.tokens)}
    named = {roles[0]: vocabulary.special_tokens[symbol] for symbol, roles in ROLES.items()}
    common: dict[str, Any] = {**named, "model_max_length": max_length}
    if not bert_like:
        # As released: the mask takes the space before it, as a word does.
        mask = AddedToken(common["mask_token"], lstrip=True, normalized=False, special=True)
        common |= {"mask_token": mask, "bos_token": common["cls_token"], "eos_token": common["sep_token"]}
    common["model_input_names"] = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    made: Any = None
    kept = read_tokenizer(vocabulary.path) if vocabulary.path.name == TOKENIZER else None
    if bert_like and (kept is None or isinstance(kept.model, models.WordPiece)):
        if vocabulary.path == dictionary.path and dictionary.tokenization == "words":
            return None
        lowercase = getattr(kept.normalizer, "lowercase", None) if kept is not None else not is_cased(vocabulary.tokens)
        made = BertTokenizer(vocab=ids, do_lower_case=bool(lowercase), **common)
    elif kept is None:
        names = ("vocab.bpe", "merges.txt")
        merges = next((folder / name for folder in folders for name in names if (folder / name).exists()), None)
        if merges is None or dictionary.tokenization != "gpt2":
            return None
        made = RobertaTokenizer(vocab=ids, merges=read_merges(merges.read_bytes()), **common)
    same = kept is None or (made is not None and _splitting(made.backend_tokenizer) == _splitting(kept))
    if same and double != bert_like:
        return made
    backend = made.backend_tokenizer if kept is None else kept
    own = {} if kept is None else {token.content: token for token in kept.get_added_tokens_decoder().values()}
    common |= {role: own.get(token, common[role]) for role, token in named.items()}
    backend.post_processor = _template(vocabulary, double=double, second=int(segments))
    backend.no_padding()
    backend.no_truncation()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **common)


def _splitting(tokenizer: Any) -> list[Any]:
    content = json.loads(tokenizer.to_str())
    return [content[part] for part in _SPLITTING]


def _template(vocabulary: TokenList, *, double: bool, second: int) -> Any:
    """Of one sequence and of two, the second one with its token type."""
    from tokenizers.processors import TemplateProcessing

    special, ids = vocabulary.special_tokens, vocabulary.special_ids
    first, separator = special["<s>"], special["</s>"]
    between = f" {separator}:{second}" if double else ""
    return TemplateProcessing(
        single=f"{first} $A {separator}",
        pair=f"{first} $A {separator}{between} $B:{second} {separator}:{second}",
        special_tokens=[(first, ids["<s>"]), (separator, ids["</s>"])],
    )
