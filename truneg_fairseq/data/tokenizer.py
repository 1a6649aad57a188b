"""The tokenizers of binarized data, one interface for all: text to the symbols of fairseq's dictionary.

A tokenizer's files lie beside ``dict.txt`` in the folder of binarized data, so that fine-tuning, conversion and
explanations cut text as the pre-training data were cut:

=============  ======================  ======================================================================
kind           files                   symbols of the dictionary
=============  ======================  ======================================================================
fast           tokenizer.json,         the tokens without the five special ones; ``<id:N>`` for token N where
               tokenizer_config.json   it has white space or the name of one of fairseq's symbols
gpt2           encoder.json, vocab.bpe  GPT-2's numbers, as in the data of fairseq's RoBERTa recipe
sentencepiece  sentencepiece.model     the pieces
=============  ======================  ======================================================================

fairseq's dictionary starts with four symbols of its own and its masked-LM task appends ``<mask>``. They take the places
of BERT's five special tokens: 30,517 lines of ``dict.txt`` for the 30,522 entries of bert-base-uncased, and converting
weights is a permutation of rows. So it is with the special tokens of any other tokenizer.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, reading, require
from ..files import read_json, replacing_file
from ..flags import option
from ..vocabulary import (
    MASK_SYMBOL,
    ROLES,
    SPECIAL_SYMBOLS,
    UNKNOWN,
    UNKNOWN_SYMBOL,
    Vocabulary,
    fingerprint,
    is_cased,
    read_symbols,
    tokenization_of,
)
from .text import read_lines

TOKENIZER, CONFIG, SENTENCEPIECE = "tokenizer.json", "tokenizer_config.json", "sentencepiece.model"
BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BERT_TOKENS = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", MASK_SYMBOL: "[MASK]"}
"""fairseq's special symbols and the tokens of the same role in BERT's vocabulary."""
FAIRSEQ_TOKENS = {symbol: symbol for symbol in BERT_TOKENS}
"""The same for RoBERTa."""
_GPT2_FILES = ("encoder.json", "vocab.bpe")
_BPE_FILES = dict([_GPT2_FILES, ("vocab.json", "merges.txt")])
_BY_NUMBER = re.compile(r"<id:(\d+)>")


def special_tokens(tokens: Collection[str], folder: Path) -> dict[str, str]:
    """The token of each of fairseq's special symbols, by its role in the folder's ``tokenizer_config.json``.

    If the config names no token for a role, BERT's or RoBERTa's usual one is used; if the vocabulary lacks that too, it
    is a new token. A token gets one role only: GPT-2 uses its end of a text for several, and the first one counts.
    """
    named: dict[str, Any] = {}
    for path in (folder / "special_tokens_map.json", folder / CONFIG):
        if path.is_file():
            named |= read_json(path, dict[str, Any], expected="a tokenizer's settings")
    usual = BERT_TOKENS if BERT_TOKENS["<s>"] in tokens else FAIRSEQ_TOKENS
    found: dict[str, str] = {}
    for symbol, roles in ROLES.items():
        given = (named.get(role) for role in roles)
        names = [token.get("content") if isinstance(token, dict) else token for token in given]
        known = (name for name in names if isinstance(name, str) and name in tokens and name not in found.values())
        found[symbol] = next(known, usual[symbol])
    return found


class TextTokenizer(ABC):
    """Text to symbols of a fairseq dictionary; special symbols are never made from text."""

    tokenization: Any  # str: how it marks whole words, "auto" if that is not known
    symbol_of: Any  # tuple of str, by the tokenizer's own number; ``<unk>`` where a number has none
    added_symbols: Any  # the symbols that were added to the trained ones: words without the mark of words
    _invisible = ""  # characters that belong to no symbol, beside white space

    @abstractmethod
    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        """The tokenizer's own numbers of every text, sequences of int."""

    @abstractmethod
    def _places(self, text: str) -> tuple[Sequence[int], Sequence[tuple[int, int]]]:
        """The tokenizer's own numbers of a text, and from where to where each stands."""

    @abstractmethod
    def contents(self) -> dict[str, bytes]:
        """The tokenizer's files by name."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of :meth:`contents`."""
        content = hashlib.sha256()
        for name, data in sorted(self.contents().items()):
            content.update(f"{name} {len(data)}\n".encode())
            content.update(data)
        return content.hexdigest()

    def encode(self, text: str) -> list[str]:
        """The symbols of a text, ``<unk>`` for what cannot be spelled; no ``<s>`` and no ``</s>``."""
        return [self.symbol_of[number] for number in self.encode_numbers([text])[0]]

    def encode_with_offsets(self, text: str) -> list[tuple[str, int, int]]:
        """Symbols with their places: ``text[start:end]`` is what the symbol stands for, without white space around.

        A symbol that stands for nothing in the text (a marker of white space alone) has ``start == end``; several
        symbols may share a character that they spell together.
        """
        encoded = zip(*self._places(text), strict=True)
        return [(self.symbol_of[number], *trimmed(text, *place, self._invisible)) for number, place in encoded]

    def symbols(self) -> tuple[str, ...]:
        """The ordinary symbols in the order of ``dict.txt``, without fairseq's special ones."""
        return tuple(symbol for symbol in self.symbol_of if symbol not in SPECIAL_SYMBOLS)

    def save(self, folder: Path) -> None:
        """Writes the tokenizer's files; the folder is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.contents().items():
            with replacing_file(folder / name) as stream:
                stream.write(content)


def read_tokenizer(path: Path) -> Any:
    """A tokenizer.json as a ``tokenizers.Tokenizer``."""
    from tokenizers import Tokenizer

    with reading(path, "a fast tokenizer, as save_pretrained of transformers writes it"):
        return Tokenizer.from_buffer(path.read_bytes())


class FastTokenizer(TextTokenizer):
    """Any tokenizer that the package tokenizers computes.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``; special tokens that it lacks are added to it.
        specials: the tokens of fairseq's special symbols.
    """

    def __init__(self, tokenizer: Any, specials: Mapping[str, str]) -> None:
        from tokenizers import AddedToken

        lacking = {symbol: token for symbol, token in specials.items() if tokenizer.token_to_id(token) is None}
        # The mask takes the space before it, as RoBERTa's tokenizer does.
        added = [AddedToken(token, lstrip=symbol == MASK_SYMBOL) for symbol, token in lacking.items()]
        tokenizer.add_special_tokens(added)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # a "[MASK]" in a text is text
        self.special_tokens, self._tokenizer = dict(specials), tokenizer

    @classmethod
    def load(cls, folder: Path) -> FastTokenizer:
        """Of a folder with a tokenizer.json, or of that file; special tokens are looked up beside it."""
        path = folder / TOKENIZER if folder.is_dir() else folder
        tokenizer = read_tokenizer(path)
        made = cls(tokenizer, special_tokens(tokenizer.get_vocab(), path.parent))
        tokens_by_number(made._tokenizer.get_vocab(), path)
        return made

    @cached_property
    def tokenization(self) -> str:
        return tokenization_of(self._tokenizer.to_str())

    @cached_property
    def symbol_of(self) -> tuple[str, ...]:
        # Not id_to_token(), which normalizes what was added: "Ü" of an uncased tokenizer would be its "u".
        token_of = {number: token for token, number in self._tokenizer.get_vocab().items()}
        return tuple(self._symbol(number, token_of.get(number)) for number in range(max(token_of) + 1))

    def _symbol(self, number: int, token: str | None) -> str:
        if token is None or token in self.special_tokens.values():
            return UNKNOWN_SYMBOL
        # fairseq separates symbols at every kind of white space.
        return f"<id:{number}>" if token.split() != [token] or token in SPECIAL_SYMBOLS else token

    @cached_property
    def added_symbols(self) -> Collection[str]:
        added = self._tokenizer.get_added_tokens_decoder().items()
        return {self.symbol_of[number] for number, token in added if not token.special}

    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        return [e.ids for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _places(self, text: str) -> tuple[Sequence[int], Sequence[tuple[int, int]]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def contents(self) -> dict[str, bytes]:
        roles = {ROLES[symbol][0]: token for symbol, token in self.special_tokens.items()}
        return {
            TOKENIZER: self._tokenizer.to_str(pretty=True).encode(),
            CONFIG: json.dumps(roles, ensure_ascii=False, indent=2).encode(),
        }


def wordpiece_tokenizer(vocabulary: Sequence[str], *, cased: bool = False) -> FastTokenizer:
    """BERT's tokenizer of the entries of a ``vocab.txt``, by id."""
    return FastTokenizer(bert_tokenizer(vocabulary, cased=cased), BERT_TOKENS)


class Gpt2Tokenizer(FastTokenizer):
    """GPT-2's byte-level BPE of the contents of its two files, whose numbers are the symbols; the path is that of the
    first, for messages.
    """

    def __init__(self, encoder_json: bytes, vocab_bpe: bytes, source: Path = Path("encoder.json")) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        with reading(source, "GPT-2's tokens and their numbers, with its vocab.bpe beside it"):
            numbers = msgspec.json.decode(encoder_json, type=dict[str, int])
            self._merges = read_merges(vocab_bpe)
            tokenizer: Any = Tokenizer(models.BPE(numbers, self._merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        # Other byte-level tokenizers have fairseq's special symbols among their tokens; no text may hold them.
        super().__init__(tokenizer, {symbol: symbol for symbol in SPECIAL_SYMBOLS if symbol in numbers})
        self._files = dict(zip(_GPT2_FILES, (encoder_json, vocab_bpe), strict=True))

    def _symbol(self, number: int, token: str | None) -> str:
        return UNKNOWN_SYMBOL if token is None or token in self.special_tokens.values() else str(number)

    @cached_property
    def added_symbols(self) -> Collection[str]:
        from tokenizers.pre_tokenizers import ByteLevel

        trained = {*ByteLevel.alphabet(), *map("".join, self._merges)}
        others = ((number, token) for token, number in self._tokenizer.get_vocab().items() if token not in trained)
        return {str(number) for number, token in others if not re.fullmatch(r"<.*>", token)}  # <|endoftext|>, <s>

    def contents(self) -> dict[str, bytes]:
        return self._files


class SentencePieceTokenizer(TextTokenizer):
    """A SentencePiece model, given as the content of its file; ``source`` is what an error message names."""

    tokenization = "sentencepiece"
    _invisible = "\u200b\u200e\u200f\u2581\ufeff\ufffd"  # what its normalization reads as spaces

    def __init__(self, model: bytes, source: Path = Path(SENTENCEPIECE)) -> None:
        require("sentencepiece", extra="fairseq")
        from sentencepiece import SentencePieceProcessor

        self._model = model
        with reading(source, "a SentencePiece model whose pieces have no white space"):
            if not model:  # of which it makes a processor that fails later
                raise ValueError("it is empty")
            self._processor = SentencePieceProcessor(model_proto=model)
            # fairseq separates symbols at every kind of white space.
            if spaced := [symbol for symbol in self.symbol_of if symbol.split() != [symbol]]:
                raise ValueError(f"its piece {spaced[0]!r} has white space")

    @cached_property
    def symbol_of(self) -> tuple[str, ...]:
        model = self._processor
        numbers = list(range(model.get_piece_size()))
        excluded = zip(model.is_control(numbers), model.is_unknown(numbers), model.is_unused(numbers), strict=True)
        # A model may have its own piece "<mask>", but no text may hold the symbol <mask> of fairseq.
        return tuple(
            UNKNOWN_SYMBOL if any(kinds) or piece in SPECIAL_SYMBOLS else piece
            for piece, kinds in zip(model.id_to_piece(numbers), excluded, strict=True)
        )

    @cached_property
    def added_symbols(self) -> Collection[str]:
        require("google.protobuf", extra="fairseq")
        from sentencepiece import sentencepiece_model_pb2

        model_proto: Any = sentencepiece_model_pb2
        pieces = model_proto.ModelProto.FromString(self._model).pieces
        return {each.piece for each in pieces if each.type == model_proto.ModelProto.SentencePiece.USER_DEFINED}

    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        return list(self._processor.encode(list(texts), return_type="numpy", num_threads=1))

    def _places(self, text: str) -> tuple[Sequence[int], Sequence[tuple[int, int]]]:
        encoded = self._processor.encode(text, return_type="offset_mapping")
        return encoded["ids"], encoded["offsets"]

    def contents(self) -> dict[str, bytes]:
        return {SENTENCEPIECE: self._model}


_KINDS = ((TOKENIZER,), _GPT2_FILES, (SENTENCEPIECE,))
"""The files of each kind of tokenizer in a folder; :func:`_read` is given the first."""


def _read(path: Path, *, cased: bool = False) -> TextTokenizer:
    """The tokenizer of a file, whose name tells its kind; beside GPT-2's tokens lie the merges."""
    if path.name in _BPE_FILES:
        return Gpt2Tokenizer(path.read_bytes(), path.with_name(_BPE_FILES[path.name]).read_bytes(), path)
    if path.suffix == ".model":
        return SentencePieceTokenizer(path.read_bytes(), path)
    if path.suffix != ".txt":
        return FastTokenizer.load(path)
    entries = read_vocabulary(path)
    # Scripts without capitals need cased, too: lowering text takes accents, which in Hindi are vowels.
    if not cased and is_cased(entries):
        raise TrueNegError(
            f"--tokenizer {path}: has entries with upper-case letters, lower-cased text has none; add --cased"
        )
    return wordpiece_tokenizer(entries, cased=cased)


def find_tokenizer(folder: Path) -> TextTokenizer | None:
    """The tokenizer whose files lie in a folder; None where there are those of none, or of several."""
    kinds = [names for names in _KINDS if all((folder / name).is_file() for name in names)]
    return _read(folder / kinds[0][0]) if len(kinds) == 1 else None


def load_tokenizer(folder: Path | str) -> TextTokenizer:
    """The tokenizer whose files lie in a folder of binarized data."""
    if (found := find_tokenizer(Path(folder))) is None:
        files = "; ".join(map(" and ".join, _KINDS))
        raise TrueNegError(
            f"{folder}: has no tokenizer beside its data, or several; expected one, as 'truneg data binarize' writes "
            f"it ({files})"
        )
    return found


def vocabulary_of(symbols: Sequence[str], data: Path, *, tokenization: str = "auto") -> Vocabulary:
    """:meth:`Vocabulary.from_symbols` for the folder ``data``, whose tokenizer knows how whole words are marked."""
    tokenizer = find_tokenizer(data)
    if tokenizer is not None and tokenization == "auto":
        tokenization = tokenizer.tokenization
    added = () if tokenizer is None else tokenizer.added_symbols
    special = {*SPECIAL_SYMBOLS, *filter(_BY_NUMBER.fullmatch, symbols)}
    encoder = data / "encoder.json"
    return Vocabulary.from_symbols(
        symbols, tokenization, encoder if encoder.exists() else None, special=special, added=added
    )


def tokens_by_number(numbers: Mapping[str, int], path: Path) -> list[str]:
    """The tokens of a tokenizer's vocabulary in order; the path is for the message."""
    tokens = sorted(numbers, key=numbers.__getitem__)
    if [numbers[token] for token in tokens] != list(range(len(tokens))):
        raise TrueNegError(f"{path}: its numbers are not 0 to {len(tokens) - 1}; expected each token's row")
    return tokens


def token_of(symbol: str, tokens: Sequence[str]) -> str:
    """What a fast tokenizer's symbol stands for among its tokens by number; other symbols stay."""
    number = _BY_NUMBER.fullmatch(symbol)
    return symbol if number is None or int(number[1]) >= len(tokens) else tokens[int(number[1])]


# Of a dictionary that was made from a corpus, words of the tokenizer are missing that the corpus does not have. Lacking
# more than this, it is not of the tokenizer's model.
_LACKING_SHARE = 0.5


@dataclass(frozen=True)
class PretrainedVocabulary:
    """The dictionary and the tokenizer of a folder of binarized data."""

    folder: Path  # the folder
    symbols: tuple[str, ...]  # the dictionary's symbols by id
    tokenizer: TextTokenizer  # what makes symbols of text

    @classmethod
    def load(cls, folder: Path) -> PretrainedVocabulary:
        """Reads ``dict.txt`` and the tokenizer's files beside it."""
        symbols = tuple(read_symbols(folder / "dict.txt"))
        tokenizer = load_tokenizer(folder)
        known, wanted = set(symbols), tokenizer.symbols()
        lacking = [symbol for symbol in wanted if symbol not in known]
        if len(lacking) > _LACKING_SHARE * len(wanted):
            raise TrueNegError(
                f"{folder / 'dict.txt'}: lacks {len(lacking):,} of the tokenizer's {len(wanted):,} symbols (e.g. "
                f"{lacking[0]!r}); expected the dictionary and the tokenizer of one model"
            )
        return cls(folder, symbols, tokenizer)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the symbols in their order."""
        return fingerprint(self.symbols)

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols)}

    @cached_property
    def id_of_number(self) -> NDArray[np.int64]:
        """The dictionary's id of each of the tokenizer's own numbers."""
        return np.array([self._id_of.get(symbol, UNKNOWN) for symbol in self.tokenizer.symbol_of], dtype=np.int64)

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The ids of every text, without ``<s>`` and ``</s>``; ``<unk>`` for what the dictionary does not have."""
        encoded = self.tokenizer.encode_numbers(texts)
        return [self.id_of_number[np.asarray(numbers, dtype=np.int64)] for numbers in encoded]

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The ids of a text, shape (N,), and the characters that each stands for, begin and end, shape (N, 2)."""
        encoded = self.tokenizer.encode_with_offsets(text)
        ids = np.array([self._id_of.get(symbol, UNKNOWN) for symbol, _, _ in encoded], dtype=np.int64)
        return ids, np.array([place for _, *place in encoded], dtype=np.int32).reshape(-1, 2)

    def save(self, folder: Path) -> None:
        """Writes ``dict.txt`` and the tokenizer's files."""
        self.tokenizer.save(folder)
        (folder / "dict.txt").write_bytes((self.folder / "dict.txt").read_bytes())


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """The flags that name a tokenizer."""

    tokenizer: Path = option(
        help="a folder with tokenizer.json (of Hugging Face, or of other data), BERT's vocab.txt, a SentencePiece "
        ".model, or GPT-2's encoder.json beside its vocab.bpe",
        metavar="PATH",
    )
    cased: bool = option(False, help="for a vocab.txt: keep upper case and accents")

    def load(self) -> TextTokenizer:
        """The tokenizer that the flags name."""
        path = self.tokenizer
        if not path.is_dir():
            return _read(path, cased=self.cased)
        found = find_tokenizer(path)
        if found is None and (path / "vocab.txt").is_file():  # a BERT's folder without tokenizer.json
            return _read(path / "vocab.txt", cased=self.cased)
        return found or load_tokenizer(path)


def read_vocabulary(path: Path) -> list[str]:
    """The entries of a BERT ``vocab.txt`` by id."""
    entries = list(read_lines(path))
    missing = [special for special in BERT_SPECIALS if special not in entries]
    if missing or len(set(entries)) < len(entries):
        found = f"no {', '.join(missing)} among" if missing else "entries that are repeated among"
        raise TrueNegError(f"{path}: has {found} its {len(entries)} lines; give a BERT vocab.txt")
    return entries


def bert_tokenizer(vocabulary: Sequence[str], *, cased: bool = False) -> Any:
    """BERT's tokenizer without special tokens, a ``tokenizers.Tokenizer``.

    It is put together from its parts because the ready-made ``BertWordPieceTokenizer`` reads a literal "[MASK]" in the
    text as the mask; here it is punctuation and a word, as it should be in a corpus.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    ids = {entry: index for index, entry in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    # strip_accents=None: accents go where letters are lowered, as in BERT.
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=not cased
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def read_merges(vocab_bpe: bytes) -> list[tuple[str, str]]:
    """The merges in the content of GPT-2's ``vocab.bpe``, in their order."""
    lines = [line for line in vocab_bpe.decode("utf-8").split("\n") if line and not line.startswith("#version")]
    return [(left, right) for left, right in (line.split() for line in lines)]


def trimmed(text: str, start: int, end: int, invisible: str = "") -> tuple[int, int]:
    """The place without the white space, and the ``invisible`` characters, around it."""
    while start < end and (text[start].isspace() or text[start] in invisible):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in invisible):
        end -= 1
    return start, end
