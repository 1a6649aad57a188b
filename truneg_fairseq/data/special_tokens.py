"""The special tokens of a Hugging Face tokenizer, paired with fairseq's special symbols by what they are for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..files import read_json
from ..vocabulary import MASK_SYMBOL

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
BERT_TOKENS = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", MASK_SYMBOL: "[MASK]"}
"""fairseq's special symbols and the tokens of the same role in BERT's vocabulary."""
FAIRSEQ_TOKENS = {symbol: symbol for symbol in BERT_TOKENS}
"""The same for RoBERTa."""
# transformers' names of the roles, the first that a tokenizer has a token for.
_ROLES = {
    "<s>": ("cls_token", "bos_token"),
    "<pad>": ("pad_token",),
    "</s>": ("sep_token", "eos_token"),
    "<unk>": ("unk_token",),
    MASK_SYMBOL: ("mask_token",),
}


def special_tokens(tokens: Collection[str], folder: Path) -> dict[str, str]:
    """The token of each of fairseq's special symbols, by its role in the folder's ``tokenizer_config.json``.

    It is that of BERT or RoBERTa where none is named, or a new one where the tokens lack these, too. No token has two
    roles: GPT-2's end of a text is the first of those that name it.
    """
    named: dict[str, Any] = {}
    for path in (folder / "special_tokens_map.json", folder / CONFIG):
        if path.is_file():
            named |= read_json(path, dict[str, Any], expected="a tokenizer's settings")
    usual = BERT_TOKENS if BERT_TOKENS["<s>"] in tokens else FAIRSEQ_TOKENS
    found: dict[str, str] = {}
    for symbol, roles in _ROLES.items():
        given = (named.get(role) for role in roles)
        names = [token.get("content") if isinstance(token, dict) else token for token in given]
        known = (name for name in names if isinstance(name, str) and name in tokens and name not in found.values())
        found[symbol] = next(known, usual[symbol])
    return found


def config_of(specials: Mapping[str, str]) -> dict[str, str]:
    """What :func:`special_tokens` finds again."""
    return {_ROLES[symbol][0]: token for symbol, token in specials.items()}
