"""Classifies the tokens of a fairseq dictionary: whole words, pieces of words, special symbols.

A *whole word* is a token that is a complete word: it does not continue the token before it, and the token after it
does not continue it. The first half is a property of the vocabulary, the second of the sequence (footnote 5 of the
paper), so this module gives two facts a token: the word it spells when it stands alone, and whether it continues one.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import TrueNegError, reading
from .files import read_json

UNKNOWN_SYMBOL, MASK_SYMBOL = "<unk>", "<mask>"
FIRST_SYMBOLS = ("<s>", "<pad>", "</s>", UNKNOWN_SYMBOL)
"""The special symbols that every fairseq dictionary begins with; <mask> comes last."""
LANGUAGE_TAG = re.compile(r"\[[a-z]{2,3}(_[A-Z]{2})?\]")  # added by fairseq's multilingual tasks: [de_DE]
SPECIAL_SYMBOLS = frozenset({*FIRST_SYMBOLS, MASK_SYMBOL})
BOS, PAD, EOS, UNKNOWN = range(len(FIRST_SYMBOLS))
"""The ids of these symbols in every fairseq dictionary."""

ROLES = {
    "<s>": ("cls_token", "bos_token"),
    "<pad>": ("pad_token",),
    "</s>": ("sep_token", "eos_token"),
    UNKNOWN_SYMBOL: ("unk_token",),
    MASK_SYMBOL: ("mask_token",),
}
"""transformers' names of what fairseq's special symbols are for; the first that a tokenizer has a token for counts."""


class Marks(NamedTuple):
    """How a tokenization's tokens show where words begin and go on."""

    begins: str = ""  # before a token that begins a word
    continues: str = ""  # before a token that continues one
    unfinished: str = ""  # behind a token that the next one continues

    def show(self, token: str) -> bool:
        """Whether one of the marks is on a token."""
        is_continued = self.unfinished and token[1:].endswith(self.unfinished)
        continues = self.continues and token[:-1].startswith(self.continues)
        return bool(is_continued or continues or (self.begins and token.startswith(self.begins)))


TOKENIZATIONS = {
    "wordpiece": Marks(continues="##"),
    "sentencepiece": Marks(begins="\u2581"),
    "gpt2": Marks(begins="\u0120"),
    "subword-nmt": Marks(unfinished="@@"),  # and fastBPE
    "words": Marks(),
}
"""The tokenizations whose whole words are understood."""

# A marker that shows on fewer of the symbols than this does not tell a tokenizer's from a coincidence of the text.
_DETECTION_SHARE = 0.02
_BEGINNINGS = " " + "".join(marks.begins for marks in TOKENIZATIONS.values())
_NOT_UNDERSTOOD = {"BPE with </w>, as of GPT-1 and XLM": Marks(unfinished="</w>")}
_NUMERIC_SHARE = 0.9
_CASED_SHARE = 0.05
_BROKEN = "\ufffd"  # of a piece that ends inside a character


@dataclass(frozen=True)
class Vocabulary:
    """A dictionary's tokens, understood."""

    symbols: tuple[str, ...]  # of the dictionary, by id, fairseq's special symbols included
    tokens: tuple[str, ...]  # what they stand for, by id: GPT-2's tokens where they are its numbers, else the symbols
    tokenization: str  # one of :data:`TOKENIZATIONS`
    # by id, the word that the token spells when it stands alone; None for pieces and special symbols
    words: tuple[str | None, ...]
    # bool, shape (V,): the token continues the word of the token before it. A token without a letter or digit continues
    # nothing: the comma of "main," leaves "main" a whole word. With WordPiece "##" alone tells.
    continues: NDArray[np.bool_]

    @cached_property
    def unfinished(self) -> NDArray[np.bool_] | None:
        """bool, shape (V,), the token's word goes on in the next token; None in all tokenizations but subword-nmt."""
        mark = TOKENIZATIONS[self.tokenization].unfinished
        return np.array([token.endswith(mark) for token in self.tokens]) if mark else None

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.symbols)

    @cached_property
    def lower_case(self) -> bool:
        return not is_cased(word for word in self.words if word is not None)

    @cached_property
    def strips_accents(self) -> bool:
        """Whether the vocabulary is uncased and no word has an accent, as with BERT's uncased tokenizer."""
        return self.lower_case and all(without_accents(word) == word for word in self.words if word is not None)

    def spelled(self, word: str) -> str:
        """A word as this vocabulary writes it: without capitals, and without accents, where it has none."""
        return (without_accents(word) if self.strips_accents else word).lower() if self.lower_case else word

    def name_of(self, token: int) -> str:
        """What to call a token: its word, or its symbol where it is a piece."""
        symbol = self.tokens[token]
        if self.words[token] or self.tokenization != "gpt2":
            return self.words[token] or symbol
        mark = TOKENIZATIONS["gpt2"].begins
        piece = gpt2_text([symbol.removeprefix(mark)])
        return symbol if _BROKEN in piece else (mark if symbol.startswith(mark) else "") + piece

    def text_of(self, tokens: Iterable[int]) -> str:
        """Readable text of a run of tokens."""
        parts = [self.tokens[token] for token in tokens]
        begins, continues, unfinished = TOKENIZATIONS[self.tokenization]
        if self.tokenization == "gpt2":
            return gpt2_text(parts).strip()
        if begins:
            return "".join(parts).replace(begins, " ").strip()
        text = " ".join(parts)
        return text.replace(f"{unfinished} {continues}", "") if unfinished or continues else text

    @classmethod
    def from_symbols(
        cls,
        symbols: Sequence[str],
        tokenization: str = "auto",
        gpt2_encoder_json: Path | None = None,
        special: Collection[str] = SPECIAL_SYMBOLS,
        added: Collection[str] = (),
    ) -> Vocabulary:
        """Understands a dictionary's symbols, by id, of a tokenization or of the one that they show ("auto").

        GPT-2's encoder.json (token to number) is needed where the symbols are GPT-2's numbers, as in the dictionaries
        of fairseq's RoBERTa recipe. ``special`` symbols are neither words nor parts of words; those ``added`` to a
        trained vocabulary are words, though without its mark of words.
        """
        if tokenization == "auto":
            tokenization = detect_tokenization(symbols)
        tokens = spell_symbols(symbols, gpt2_encoder_json) if tokenization == "gpt2" else list(symbols)
        words: list[str | None] = [None] * len(tokens)
        continues = np.zeros(len(tokens), dtype=np.bool_)
        for index, (symbol, token) in enumerate(zip(symbols, tokens, strict=True)):
            if symbol not in special and symbol not in added:
                word, continues[index] = _spell(token, tokenization)
                words[index] = word or None
        trained = cls(tuple(symbols), tuple(tokens), tokenization, tuple(words), continues)
        for index, (symbol, token) in enumerate(zip(symbols, tokens, strict=True)):
            if symbol in added and symbol not in special:  # an uncased tokenizer finds "covid" where "COVID" was added
                words[index] = trained.spelled(token.strip(_BEGINNINGS)) or None
        return replace(trained, words=tuple(words))


def without_accents(text: str) -> str:
    """A text as BERT's uncased tokenizer strips it: decomposed (NFD), without combining marks; case stays."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def is_cased(words: Iterable[str]) -> bool:
    """Whether more than 5 % of the words of letters have upper-case ones; fewer may have been added ("URL")."""
    upper = [word != word.lower() for word in words if word.isalpha()]
    return sum(upper) > _CASED_SHARE * len(upper)


def fingerprint(symbols: Sequence[str]) -> str:
    """SHA-256 (hex) of a dictionary's symbols in their order.

    A final ``<mask>``, and tags of languages before it, are left out: fairseq's tasks add them when they load dict.txt,
    and they move no other id.
    """
    end = len(symbols)
    while end and (symbols[end - 1] == MASK_SYMBOL or LANGUAGE_TAG.fullmatch(symbols[end - 1])):
        end -= 1
    symbols = symbols[:end]
    return hashlib.sha256("\n".join(symbols).encode("utf-8", "surrogatepass")).hexdigest()


def detect_tokenization(symbols: Sequence[str]) -> str:
    """The tokenization that a dictionary's symbols show, one of :data:`TOKENIZATIONS`."""
    ordinary = [symbol for symbol in symbols if symbol not in SPECIAL_SYMBOLS]
    if _is_numeric(symbols):
        return "gpt2"
    shares = {name: _share(ordinary, marks.show) for name, marks in (TOKENIZATIONS | _NOT_UNDERSTOOD).items()}
    best = max(shares, key=shares.__getitem__)
    if shares[best] == 0:
        return "words"
    if shares[best] < _DETECTION_SHARE or best in _NOT_UNDERSTOOD:
        raise TrueNegError(
            f"dictionary: {shares[best]:.1%} of the symbols have the mark of {best}, which does not tell how whole "
            f"words are marked; put the tokenizer beside dict.txt, or set --tokenization ({', '.join(TOKENIZATIONS)})"
        )
    return best


def spell_symbols(symbols: Sequence[str], gpt2_encoder_json: Path | None) -> list[str]:
    """The tokens that a dictionary's symbols stand for: GPT-2's numbers become its tokens, everything else stays."""
    if not _is_numeric(symbols):
        return list(symbols)
    encoder: dict[str, int] = {}
    if gpt2_encoder_json is not None:
        encoder = read_json(gpt2_encoder_json, dict[str, int], expected="GPT-2's JSON object of token: number")
    token_of = {str(number): token for token, number in encoder.items()}
    missing = [symbol for symbol in symbols if symbol.isdigit() and symbol not in token_of]
    if missing:
        raise TrueNegError(
            f"dictionary: {len(missing)} of its symbols are GPT-2's numbers and not in {gpt2_encoder_json or 'a file'} "
            f"(e.g. {missing[0]}); put the encoder.json that the data was encoded with beside dict.txt"
        )
    return [token_of.get(symbol, symbol) for symbol in symbols]


def read_symbols(path: Path) -> list[str]:
    """The symbols by id of a dict.txt, or of a folder of binarized data, as fairseq's masked_lm task has them.

    This is fairseq's ``Dictionary.load`` without fairseq's 3 seconds of import.
    """
    if path.is_dir() or not path.suffix:
        path = path / "dict.txt"
    if not path.exists():
        raise TrueNegError(f"{path}: no such file; expected the dictionary of binarized data")
    lines = path.read_text(encoding="utf-8").split("\n")
    symbols = list(FIRST_SYMBOLS)
    known = set(symbols)
    for number, line in enumerate(lines, start=1):
        if not line.rstrip():
            continue
        symbol, separator, count = line.rstrip().rpartition(" ")
        if overwrite := count == "#fairseq:overwrite":
            symbol, separator, count = symbol.rpartition(" ")
        if not separator or not count.lstrip("-").isdigit() or (symbol in known and not overwrite):
            raise TrueNegError(f"{path}: line {number} is {line!r}, expected 'symbol count', each symbol once")
        known.add(symbol)
        symbols.append(symbol)
    if MASK_SYMBOL not in known:
        symbols.append(MASK_SYMBOL)
    return symbols


def tokenization_of(tokenizer: str) -> str:
    """How a tokenizer.json, given as its text, marks whole words; "auto" if its parts do not tell."""
    content = json.loads(tokenizer)
    if content["model"].get("type") == "WordPiece":
        usual = content["model"].get("continuing_subword_prefix") == TOKENIZATIONS["wordpiece"].continues
        return "wordpiece" if usual else "auto"
    parts = json.dumps([content.get("pre_tokenizer"), content.get("decoder")], ensure_ascii=False)
    if '"type": "ByteLevel"' in parts:
        return "gpt2"
    return "sentencepiece" if f'"replacement": "{TOKENIZATIONS["sentencepiece"].begins}"' in parts else "auto"


def _share(symbols: Sequence[str], predicate: Callable[[str], bool]) -> float:
    return sum(map(predicate, symbols)) / max(1, len(symbols))


def _is_numeric(symbols: Sequence[str]) -> bool:
    ordinary = [s for s in symbols if s not in SPECIAL_SYMBOLS and not s.startswith("madeupword")]
    return len(ordinary) > 0 and _share(ordinary, lambda s: s.isascii() and s.isdigit()) >= _NUMERIC_SHARE


def _spell(token: str, tokenization: str) -> tuple[str | None, bool]:
    """The word that a token spells when it stands alone, and whether it continues the word before it."""
    begins, continues, unfinished = TOKENIZATIONS[tokenization]
    if not begins:
        inside = bool(continues) and token[:-1].startswith(continues)
        return (None if inside or (unfinished and token.endswith(unfinished)) else token), inside
    text = token.removeprefix(begins)
    if tokenization == "gpt2" and not text.isascii():  # ASCII stands for itself
        text = gpt2_text([text])
    if token.startswith(begins):
        return text, False
    # A letter, digit or combining mark (a vowel of Hindi), or a part of a character, which may be one of these.
    return None, any(c.isalnum() or unicodedata.category(c)[0] == "M" or c == _BROKEN for c in text)


def gpt2_text(tokens: Sequence[str]) -> str:
    """What GPT-2's tokens stand for together, which spell bytes as printable characters."""
    from tokenizers.decoders import ByteLevel

    return str(ByteLevel().decode(list(tokens)))


class WordBoundaries(NamedTuple):
    """Which tokens of a dictionary belong to one word: arrays, or tensors of one device."""

    continues: Any  # bool, shape (V,), whether a token continues the word of the token before it
    unfinished: Any = None  # bool, shape (V,), whether the next token continues its word (subword-nmt); None for never

    def inside(self, tokens: Any) -> Any:
        """Whether a token belongs to the same word as the token before it; bool, of the shape of ``tokens``, (B, T)."""
        inside = self.continues[tokens]
        if self.unfinished is not None:
            inside[:, 1:] |= self.unfinished[tokens[:, :-1]]
        return inside

    def whole(self, tokens: Any) -> Any:
        """Which tokens are whole words, judged on the original sequence (footnote 5).

        The last token of a sequence counts as a part of a word, as its word may go on behind it; with subword-nmt so
        does the first one, also after ``<s>``. A sequence that ends with fairseq's ``</s>`` or padding loses no word.

        Args:
            tokens: int64, shape (B, T), the original tokens (nothing masked), padding included.

        Returns:
            bool, shape (B, T): the token does not continue a word, and the next token does not continue it.
        """
        inside = self.inside(tokens)
        continued = inside & False if self.unfinished is None else self.unfinished[tokens]
        continued[:, :-1] = inside[:, 1:]
        continued[:, -1] |= self.continues.any()  # a dictionary of words has no piece that could follow
        if self.unfinished is not None:
            is_cut = ~((tokens[:, -1] == EOS) | (tokens[:, -1] == PAD))
            inside[:, 0] |= is_cut
            inside[:, 1:2] |= (is_cut & (tokens[:, 0] == BOS))[:, None]
        return ~(inside | continued)

    def whole_alone(self, tokens: Any) -> Any:
        """Which tokens can be whole words, where their neighbours are not known; bool, of the shape of ``tokens``."""
        alone = ~self.continues[tokens]
        return alone if self.unfinished is None else alone & ~self.unfinished[tokens]

    def on(self, device: Any) -> WordBoundaries:
        """The same as tensors of a device."""
        import torch

        return WordBoundaries(*(None if marks is None else torch.as_tensor(marks, device=device) for marks in self))


def load_transformers_tokenizer(name: str) -> Any:
    """A tokenizer of transformers, by its folder or its name on the hub."""
    from transformers import AutoTokenizer

    expected = "its folder" if Path(name).is_file() else "a model's folder, or its name on the hub"
    with reading(name, f"a tokenizer of transformers: {expected}"):
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)


def symbols_of_tokenizer(tokenizer: Any, rows: int = 0) -> list[str]:
    """The tokens of a tokenizer of transformers by id, which counts of a text are in, filled up to ``rows``."""
    ids = tokenizer.get_vocab()
    symbols = [f"<unused{index}>" for index in range(max(rows, max(ids.values()) + 1))]
    for token, index in ids.items():
        symbols[index] = token
    return symbols


def ends_of(tokenizer: Any) -> tuple[int, int]:
    """The ids before and after every text: of [CLS] and [SEP], or where a tokenizer has none of bos and eos."""
    ids = [[getattr(tokenizer, f"{role}_id") for role in ROLES[symbol]] for symbol in ("<s>", "</s>")]
    begin, end = (next((one for one in found if one is not None), None) for found in ids)
    if begin is None or end is None:
        name = tokenizer.name_or_path or type(tokenizer).__name__
        raise TrueNegError(f"{name}: its tokenizer has no tokens for both ends of a text (cls and sep, or bos and eos)")
    return int(begin), int(end)


def padding_of(tokenizer: Any) -> int:
    """The id of padding; -1, which no token has, where the tokenizer has none."""
    return -1 if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)


def vocabulary_of_tokenizer(tokenizer: Any, tokenization: str = "auto", size: int | None = None) -> Vocabulary:
    """The vocabulary of a tokenizer of transformers.

    Args:
        tokenizer: a ``PreTrainedTokenizerFast`` (or a slow one) with a mask token.
        tokenization: how it marks whole words, see :class:`Vocabulary`.
        size: rows of the model's embeddings, where they are more than the tokenizer's tokens; the rest are not words.
    """
    symbols = symbols_of_tokenizer(tokenizer, size or 0)
    if size is not None and len(symbols) > size:
        raise TrueNegError(
            f"{tokenizer.name_or_path or type(tokenizer).__name__}: the tokenizer needs {len(symbols):,} embeddings, "
            f"the model has {size:,}; call model.resize_token_embeddings({len(symbols)})"
        )
    special = {*symbols} - tokenizer.get_vocab().keys() | {*tokenizer.all_special_tokens}
    if tokenization == "auto" and tokenizer.is_fast:
        tokenization = tokenization_of(tokenizer.backend_tokenizer.to_str())
    return Vocabulary.from_symbols(symbols, tokenization, special=special, added=tokenizer.get_added_vocab().keys())
