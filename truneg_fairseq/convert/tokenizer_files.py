"""The tokenizer of a Hugging Face folder, from what lies beside the binarized data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.tokenizer import BERT_TOKENS, TOKENIZER, read_merges
from ..vocabulary import is_cased
from .rows import TokenList

MERGES = ("vocab.bpe", "merges.txt")
"""GPT-2's merges, under fairseq's name and under transformers'."""
_ROLES = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
# What splits text in tokenizer.json; the rest are special tokens and their places.
_SPLITTING = ("normalizer", "pre_tokenizer", "model", "decoder")


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
    from tokenizers import AddedToken, Tokenizer, models
    from transformers import BertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

    bert_like = vocabulary.special_tokens == BERT_TOKENS
    double = not bert_like if double_separator is None else double_separator
    standard = double != bert_like
    ids = {token: row for row, token in enumerate(vocabulary.tokens)}
    named = {role: vocabulary.special_tokens[symbol] for role, symbol in _ROLES.items()}
    common: dict[str, Any] = {**named, "model_max_length": max_length}
    if not bert_like:
        # As released: the mask takes the space before it, as a word does.
        mask = AddedToken(common["mask_token"], lstrip=True, normalized=False, special=True)
        common |= {"mask_token": mask}
        common |= {"bos_token": common["cls_token"], "eos_token": common["sep_token"]}
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    common["model_input_names"] = inputs
    made: Any
    if vocabulary.path.name == TOKENIZER:
        kept = Tokenizer.from_file(str(vocabulary.path))
        lowercase = getattr(kept.normalizer, "lowercase", None)
        like_bert = bert_like and isinstance(kept.model, models.WordPiece)
        made = BertTokenizer(vocab=ids, do_lower_case=bool(lowercase), **common) if like_bert else None
        standard = standard and made is not None and _splitting(made.backend_tokenizer) == _splitting(kept)
        backend = made.backend_tokenizer if standard else kept
        own = {token.content: token for token in kept.get_added_tokens_decoder().values()}
        common |= {role: own.get(token, common[role]) for role, token in named.items()}
    elif bert_like:
        if vocabulary.path == dictionary.path and dictionary.tokenization == "words":
            return None
        made = BertTokenizer(vocab=ids, do_lower_case=not is_cased(vocabulary.tokens), **common)
        backend = made.backend_tokenizer
    else:
        merges = next((folder / name for folder in folders for name in MERGES if (folder / name).exists()), None)
        if merges is None or dictionary.tokenization != "gpt2":
            return None
        made = RobertaTokenizer(vocab=ids, merges=read_merges(merges.read_bytes()), **common)
        backend = made.backend_tokenizer
    if standard:
        return made
    backend.post_processor = _template(vocabulary, double=double)
    backend.no_padding()
    backend.no_truncation()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **common)


def _splitting(tokenizer: Any) -> list[Any]:
    content = json.loads(tokenizer.to_str())
    return [content[part] for part in _SPLITTING]


def _template(vocabulary: TokenList, *, double: bool) -> Any:
    """Of one sequence and of two; only BERT-like models know the second one by its token type."""
    from tokenizers.processors import TemplateProcessing

    special, ids = vocabulary.special_tokens, vocabulary.special_ids
    first, separator = special["<s>"], special["</s>"]
    second = 1 if special == BERT_TOKENS else 0
    between = f" {separator}:{second}" if double else ""
    return TemplateProcessing(
        single=f"{first} $A {separator}",
        pair=f"{first} $A {separator}{between} $B:{second} {separator}:{second}",
        special_tokens=[(first, ids["<s>"]), (separator, ids["</s>"])],
    )
