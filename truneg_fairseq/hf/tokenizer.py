"""A tokenizer of transformers as a vocabulary."""

from __future__ import annotations

from typing import Any

from ..errors import TrueNegError
from ..vocabulary import Vocabulary, tokenization_of


def vocabulary_of(tokenizer: Any, tokenization: str = "auto", size: int | None = None) -> Vocabulary:
    """The tokens of a tokenizer, understood.

    Args:
        tokenizer: a ``PreTrainedTokenizerFast`` (or a slow one) with a mask token.
        tokenization: how it marks whole words, see :class:`~truneg_fairseq.vocabulary.Vocabulary`.
        size: rows of the model's embeddings, where they are more than the tokenizer's tokens; the rest are not words.
    """
    name = tokenizer.name_or_path or type(tokenizer).__name__
    ids = tokenizer.get_vocab()
    needed = max(ids.values()) + 1
    if size is not None and needed > size:
        raise TrueNegError(
            f"{name}: the tokenizer needs {needed:,} embeddings, the model has {size:,}; call "
            f"model.resize_token_embeddings({needed})"
        )
    symbols = [f"<unused{index}>" for index in range(size or needed)]
    unused = set(symbols)
    for token, index in ids.items():
        unused.discard(symbols[index])
        symbols[index] = token
    special = {*unused, *tokenizer.all_special_tokens}
    if tokenization == "auto" and tokenizer.is_fast:
        tokenization = tokenization_of(tokenizer.backend_tokenizer.to_str())
    return Vocabulary.from_symbols(symbols, tokenization, special=special, added=tokenizer.get_added_vocab().keys())
