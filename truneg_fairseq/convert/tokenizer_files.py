"""The tokenizer files of a Hugging Face folder, from what lies beside the binarized data."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.tokenizer import build_tokenizer, read_merges
from ..errors import TrueNegError, reason
from ..vocabulary import is_cased
from .hf_files import write_json
from .rows import (
    BERT_TOKENS,
    BPE_VOCABULARY,
    TOKENIZER,
    WORDPIECE_VOCABULARY,
    TokenList,
)

MERGES = ("vocab.bpe", "merges.txt")
"""GPT-2's merges, under fairseq's name and under transformers'."""


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer that is ready to be written."""

    tokenizer: Any  # a ``tokenizers.Tokenizer`` with special tokens and template
    special_tokens: Mapping[str, str]  # the tokens of fairseq's special symbols
    standard: bool  # whether transformers' own class of this tokenizer does the same
    merges: Path | None = None  # GPT-2's, to be copied

    def write(self, folder: Path, tokens: Sequence[str], max_length: int, segments: bool) -> None:
        """Writes tokenizer.json, tokenizer_config.json, and vocab.txt or vocab.json with merges.txt.

        Args:
            folder: of the model.
            tokens: by row.
            max_length: tokens that the model takes.
            segments: whether the model knows the second sentence of a pair by its token type.
        """
        bert_like = self.special_tokens is BERT_TOKENS
        if bert_like:
            (folder / WORDPIECE_VOCABULARY).write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
        if self.merges is not None:
            write_json(folder / BPE_VOCABULARY, {token: row for row, token in enumerate(tokens)})
            shutil.copyfile(self.merges, folder / "merges.txt")
        self.tokenizer.save(str(folder / TOKENIZER))
        own_class = "BertTokenizer" if bert_like else "RobertaTokenizer"
        config: dict[str, Any] = {
            "tokenizer_class": own_class if self.standard else "PreTrainedTokenizerFast",
            "model_max_length": max_length,
            "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
            **_roles(self.special_tokens),
        }
        if bert_like and self.standard:
            config["do_lower_case"] = bool(self.tokenizer.normalizer.lowercase)
        write_json(folder / "tokenizer_config.json", config)


def build_tokenizer_files(
    vocabulary: TokenList, dictionary: TokenList, folders: Sequence[Path], *, double_separator: bool | None
) -> TokenizerFiles | None:
    """The tokenizer of the data.

    Args:
        vocabulary: the model's, in the order of its rows.
        dictionary: of the data.
        folders: where the data's files are looked for.
        double_separator: whether pairs have two separators between them; None for what is usual.

    Returns:
        None where the data do not say how their text was split: no vocab.txt, no tokenizer.json, no vocab.bpe, and a
        dictionary that is not of WordPiece.
    """
    bert_like = vocabulary.special_tokens is BERT_TOKENS
    double = not bert_like if double_separator is None else double_separator
    if vocabulary.path.name == TOKENIZER:
        return _kept(vocabulary, double)
    if bert_like and vocabulary.path == dictionary.path and dictionary.tokenization == "words":
        return None
    if bert_like:
        tokenizer = build_tokenizer(vocabulary.tokens, is_cased(vocabulary.tokens))
        return _finished(tokenizer, vocabulary, double, standard=not double)
    merges = next((folder / name for folder in folders for name in MERGES if (folder / name).exists()), None)
    if merges is None or dictionary.tokenization != "gpt2":
        return None
    return _finished(_byte_level_bpe(vocabulary, merges), vocabulary, double, standard=double, merges=merges)


def _kept(vocabulary: TokenList, double: bool) -> TokenizerFiles:
    """The tokenizer.json beside the data; of BERT's class where it does the same."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(str(vocabulary.path))
    files = _finished(found, vocabulary, double, standard=False)
    lowercase = getattr(found.normalizer, "lowercase", None)
    if double or lowercase is None or vocabulary.special_tokens is not BERT_TOKENS:
        return files
    own = _finished(build_tokenizer(vocabulary.tokens, not lowercase), vocabulary, double, standard=True)
    return own if own.tokenizer.to_str() == found.to_str() else files


def _finished(
    tokenizer: Any, vocabulary: TokenList, double: bool, *, standard: bool, merges: Path | None = None
) -> TokenizerFiles:
    """With special tokens, and the template of one sequence and of two."""
    from tokenizers import AddedToken
    from tokenizers.processors import TemplateProcessing

    special, ids = vocabulary.special_tokens, vocabulary.special_ids
    bert_like = special is BERT_TOKENS
    first, separator, mask = special["<s>"], special["</s>"], special["<mask>"]
    tokenizer.add_special_tokens([token for token in special.values() if token != mask])
    # RoBERTa's mask takes the space before it, as a word does.
    tokenizer.add_special_tokens([AddedToken(mask, lstrip=not bert_like, normalized=False, special=True)])
    second = 1 if bert_like else 0
    between = f" {separator}:{second}" if double else ""
    tokenizer.post_processor = TemplateProcessing(
        single=f"{first} $A {separator}",
        pair=f"{first} $A {separator}{between} $B:{second} {separator}:{second}",
        special_tokens=[(first, ids["<s>"]), (separator, ids["</s>"])],
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return TokenizerFiles(tokenizer, special, standard, merges)


def _byte_level_bpe(vocabulary: TokenList, path: Path) -> Any:
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    try:
        ids = {token: row for row, token in enumerate(vocabulary.tokens)}
        tokenizer = Tokenizer(BPE(ids, read_merges(path.read_bytes())))
    except Exception as error:  # the library raises plain Exception
        raise TrueNegError(f"{path}: {reason(error)}; expected the merges of GPT-2's BPE") from None
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer


def _roles(special_tokens: Mapping[str, str]) -> dict[str, str]:
    roles = {
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    if special_tokens is not BERT_TOKENS:
        roles |= {"bos_token": "<s>", "eos_token": "</s>"}
    return {role: special_tokens[symbol] for role, symbol in roles.items()}
