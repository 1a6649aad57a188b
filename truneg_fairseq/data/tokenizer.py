"""The tokenizers of binarized data, one interface for all: text to the symbols of fairseq's dictionary and back.

A tokenizer's files lie beside ``dict.txt`` in the folder of binarized data, so that fine-tuning, conversion and
explanations cut text as the pre-training data were cut:

=============  ==========================  ==========================================================
kind           files                       symbols of the dictionary
=============  ==========================  ==========================================================
wordpiece      vocab.txt, tokenizer.json   BERT's entries without its five special tokens
sentencepiece  sentencepiece.model         the pieces
gpt2           encoder.json, vocab.bpe     GPT-2's numbers, as in the data of fairseq's RoBERTa recipe
=============  ==========================  ==========================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from ..errors import TrueNegError, reason
from ..extras import require
from ..files import make_output_folder, replacing_file
from ..schema import parse_json, read_bytes
from ..vocabulary import SPECIAL_SYMBOLS, UNKNOWN_SYMBOL
from .wordpiece import BERT_SPECIALS, build_tokenizer, read_vocabulary

_NUMBERS_A_TOKEN = 2  # of GPT-2's encoder.json at most


class TextTokenizer(ABC):
    """Text to symbols of a fairseq dictionary and back; special symbols are never made from text."""

    # "wordpiece", "sentencepiece" or "gpt2"; also the name of its whole words in
    # :data:`truneg_fairseq.vocabulary.TOKENIZATIONS`
    kind: ClassVar[str]
    file_names: ClassVar[tuple[str, ...]]  # the files that hold all there is to know

    @property
    @abstractmethod
    def symbol_of(self) -> tuple[str, ...]:
        """The symbol by the tokenizer's own number; ``<unk>`` where a number has none."""

    @abstractmethod
    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        """The tokenizer's own numbers of every text, sequences of int."""

    @abstractmethod
    def encode_with_offsets(self, text: str) -> list[tuple[str, int, int]]:
        """Symbols with their places: ``text[start:end]`` is what the symbol stands for, without white space around.

        A symbol that stands for nothing in the text (a marker of white space alone) has ``start == end``; several
        symbols may share a character that they spell together.
        """

    @abstractmethod
    def decode(self, symbols: Sequence[str]) -> str:
        """The text of symbols, as near to the original as the tokenizer keeps it; special symbols stay as they are."""

    def cut(self, text: str, length: int) -> list[str]:
        """The text in pieces of about ``length`` characters whose numbers, joined, are those of the whole text.

        One piece where the tokenizer has no place to be sure of.
        """
        return [text]

    @abstractmethod
    def contents(self) -> dict[str, bytes]:
        """What :attr:`file_names` hold, by name."""

    def encode(self, text: str) -> list[str]:
        """The symbols of a text, ``<unk>`` for what cannot be spelled; no ``<s>`` and no ``</s>``."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """:meth:`encode` for many texts, which is faster."""
        symbol_of = self.symbol_of
        return [[symbol_of[number] for number in numbers] for numbers in self.encode_numbers(texts)]

    def symbols(self) -> tuple[str, ...]:
        """The ordinary symbols in the order of ``dict.txt``, without fairseq's special ones."""
        return tuple(symbol for symbol in self.symbol_of if symbol not in SPECIAL_SYMBOLS)

    def save(self, folder: Path) -> None:
        """Writes the tokenizer's files; the folder is made where it is missing."""
        make_output_folder(folder)
        for name, content in self.contents().items():
            with replacing_file(folder / name) as stream:
                stream.write(content)


class HuggingFaceTokenizer(TextTokenizer):
    """A tokenizer that the package tokenizers computes; its words begin at white space."""

    _tokenizer: Any  # the ``tokenizers.Tokenizer``

    @override
    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        return [e.ids for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    @override
    def cut(self, text: str, length: int) -> list[str]:
        return cut_at_spaces(text, length)

    @override
    def encode_with_offsets(self, text: str) -> list[tuple[str, int, int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [
            (self.symbol_of[number], *_trimmed(text, *place))
            for number, place in zip(encoding.ids, encoding.offsets, strict=True)
        ]


class WordPieceTokenizer(HuggingFaceTokenizer):
    """BERT's tokenizer.

    Args:
        vocabulary: the entries of ``vocab.txt`` by id.
        cased: keep upper case and accents.
    """

    kind = "wordpiece"
    file_names = ("vocab.txt", "tokenizer.json")

    def __init__(self, vocabulary: Sequence[str], cased: bool = False) -> None:
        self.vocabulary = tuple(vocabulary)
        self.cased = cased
        self._tokenizer = build_tokenizer(self.vocabulary, cased)

    @classmethod
    def from_vocab(cls, vocab: Path, cased: bool = False) -> WordPieceTokenizer:
        """The tokenizer of a BERT ``vocab.txt``."""
        return cls(read_vocabulary(vocab), cased)

    @classmethod
    def load(cls, folder: Path) -> WordPieceTokenizer:
        """The tokenizer that :meth:`save` wrote; ``tokenizer.json`` knows whether it lowers case."""
        path = folder / "tokenizer.json"
        written = _read(path)
        try:
            cased = not parse_json(written, str(path), dict[str, Any], expected="a tokenizer")["normalizer"][
                "lowercase"
            ]
        except (TrueNegError, KeyError, TypeError):
            raise TrueNegError(
                f"{path}: is not of a BERT tokenizer; expected the file that was written with {folder / 'vocab.txt'}"
            ) from None
        try:
            tokenizer = cls(read_vocabulary(folder / "vocab.txt"), cased)
        except TrueNegError as error:
            named = str(folder) in str(error)
            raise error if named else TrueNegError(f"{folder / 'vocab.txt'}: does not fit {path} ({error})") from None
        if not _same_tokenizer(written, tokenizer._tokenizer):
            raise TrueNegError(f"{path}: does not fit {folder / 'vocab.txt'}; expected two files written together")
        return tokenizer

    @override
    @cached_property
    def symbol_of(self) -> tuple[str, ...]:
        return tuple(UNKNOWN_SYMBOL if entry in BERT_SPECIALS else entry for entry in self.vocabulary)

    @override
    def decode(self, symbols: Sequence[str]) -> str:
        text: str = self._tokenizer.decoder.decode(list(symbols))
        return text

    @override
    def contents(self) -> dict[str, bytes]:
        vocabulary = "".join(f"{entry}\n" for entry in self.vocabulary)
        return {
            "vocab.txt": vocabulary.encode(),
            "tokenizer.json": self._tokenizer.to_str(pretty=True).encode(),
        }


class SentencePieceTokenizer(TextTokenizer):
    """A SentencePiece model.

    Args:
        model: the content of the model's file.
        source: what an error message names.
    """

    kind = "sentencepiece"
    file_names = ("sentencepiece.model",)

    def __init__(self, model: bytes, source: Path = Path("sentencepiece.model")) -> None:
        require("sentencepiece", extra="fairseq")
        from sentencepiece import SentencePieceProcessor

        self._model = model
        try:
            if not model:  # of which it makes a processor that fails later
                raise ValueError
            self._processor = SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError):
            raise TrueNegError(f"{source}: is no SentencePiece model; give the .model file") from None
        _check_symbols(self.symbol_of, source)

    @classmethod
    def from_model(cls, path: Path) -> SentencePieceTokenizer:
        """The tokenizer of a SentencePiece ``.model`` file."""
        return cls(_read(path), path)

    @classmethod
    def load(cls, folder: Path) -> SentencePieceTokenizer:
        """The tokenizer that :meth:`save` wrote."""
        return cls.from_model(folder / "sentencepiece.model")

    @override
    @cached_property
    def symbol_of(self) -> tuple[str, ...]:
        model = self._processor

        def symbol(number: int) -> str:
            piece: str = model.id_to_piece(number)
            # A model may have a piece "<mask>" of its own, but no text may hold fairseq's.
            ordinary = not (model.is_control(number) or model.is_unknown(number) or model.is_unused(number))
            return piece if ordinary and piece not in SPECIAL_SYMBOLS else UNKNOWN_SYMBOL

        return tuple(map(symbol, range(model.get_piece_size())))

    @override
    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        encoded: list[Any] = self._processor.encode(list(texts), return_type="numpy", num_threads=1)
        return encoded

    @override
    def encode_with_offsets(self, text: str) -> list[tuple[str, int, int]]:
        encoded = self._processor.encode(text, return_type="offset_mapping")
        return [
            (self.symbol_of[number], *_trimmed(text, start, end, invisible=_SENTENCEPIECE_SPACES))
            for number, (start, end) in zip(encoded["ids"], encoded["offsets"], strict=True)
        ]

    @override
    def decode(self, symbols: Sequence[str]) -> str:
        text: str = self._processor.decode(list(symbols))
        return text

    @override
    def contents(self) -> dict[str, bytes]:
        return {"sentencepiece.model": self._model}


class Gpt2Tokenizer(HuggingFaceTokenizer):
    """GPT-2's byte-level BPE, whose symbols are its numbers.

    Args:
        encoder_json: the content of ``encoder.json``, token to number.
        vocab_bpe: the content of ``vocab.bpe``, the merges.
        source: what an error message names.
    """

    kind = "gpt2"
    file_names = ("encoder.json", "vocab.bpe")

    def __init__(self, encoder_json: bytes, vocab_bpe: bytes, source: Path = Path("encoder.json")) -> None:
        from tokenizers import Tokenizer
        from tokenizers.decoders import ByteLevel as ByteLevelDecoder
        from tokenizers.models import BPE
        from tokenizers.pre_tokenizers import ByteLevel

        self._files = {"encoder.json": encoder_json, "vocab.bpe": vocab_bpe}
        try:
            self._token_numbers = parse_json(encoder_json, str(source), dict[str, int], expected="tokens: numbers")
            self._tokenizer = Tokenizer(BPE(self._token_numbers, read_merges(vocab_bpe)))
        except Exception as error:  # tokenizers raises bare Exceptions, and ValueErrors of several kinds
            raise TrueNegError(
                f"{source}: does not make a BPE with its vocab.bpe ({reason(error)}); expected the two files of GPT-2"
            ) from None
        largest = max(self._token_numbers.values())
        if largest > _NUMBERS_A_TOKEN * len(self._token_numbers):  # a dictionary has all numbers up to it
            raise TrueNegError(
                f"{source}: has the number {largest:,} among {len(self._token_numbers):,} tokens; expected GPT-2's "
                "encoder.json, which has no such gaps"
            )
        lacking = [token for token in ByteLevel.alphabet() if token not in self._token_numbers]
        if lacking:
            raise TrueNegError(
                f"{source}: {len(lacking)} of the 256 bytes have no token (e.g. {min(lacking)!r}); expected GPT-2's "
                "encoder.json"
            )
        self._tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
        self._decoder = ByteLevelDecoder()

    @classmethod
    def from_files(cls, encoder_json: Path, vocab_bpe: Path) -> Gpt2Tokenizer:
        """The tokenizer of GPT-2's two files."""
        return cls(_read(encoder_json), _read(vocab_bpe), encoder_json)

    @classmethod
    def load(cls, folder: Path) -> Gpt2Tokenizer:
        """The tokenizer that :meth:`save` wrote."""
        return cls.from_files(folder / "encoder.json", folder / "vocab.bpe")

    @override
    @cached_property
    def symbol_of(self) -> tuple[str, ...]:
        known = set(self._token_numbers.values())
        return tuple(str(number) if number in known else UNKNOWN_SYMBOL for number in range(max(known) + 1))

    @cached_property
    def _token_of(self) -> dict[str, str]:
        return {str(number): token for token, number in self._token_numbers.items()}

    @override
    def decode(self, symbols: Sequence[str]) -> str:
        def text_of(known: bool, run: Iterable[str]) -> str:
            return self._decoder.decode([self._token_of[symbol] for symbol in run]) if known else "".join(run)

        return "".join(text_of(known, run) for known, run in groupby(symbols, self._token_of.__contains__))

    @override
    def contents(self) -> dict[str, bytes]:
        return self._files


TOKENIZERS: dict[str, type[WordPieceTokenizer] | type[SentencePieceTokenizer] | type[Gpt2Tokenizer]] = {
    tokenizer.kind: tokenizer for tokenizer in (WordPieceTokenizer, SentencePieceTokenizer, Gpt2Tokenizer)
}


def load_tokenizer(folder: Path) -> TextTokenizer:
    """The tokenizer whose files lie in a folder of binarized data."""
    return TOKENIZERS[_kind_of(folder)].load(folder)


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a folder's tokenizer, to be copied wherever its ``dict.txt`` goes."""
    return [folder / name for name in TOKENIZERS[_kind_of(folder)].file_names]


def _kind_of(folder: Path) -> str:
    kinds = [
        kind
        for kind, tokenizer in TOKENIZERS.items()
        if all((folder / name).is_file() for name in tokenizer.file_names)
    ]
    if len(kinds) == 1:
        return kinds[0]
    files = "; ".join(f"{' and '.join(tokenizer.file_names)} ({kind})" for kind, tokenizer in TOKENIZERS.items())
    if kinds:
        raise TrueNegError(f"{folder}: has the files of {' and '.join(kinds)}; expected one tokenizer: {files}")
    raise TrueNegError(
        f"{folder}: has no tokenizer beside its data; expected {files}, as 'truneg data binarize' writes"
    )


def _read(path: Path) -> bytes:
    return read_bytes(path, expected="a tokenizer's file")


def _same_tokenizer(written: bytes, tokenizer: Any) -> bool:
    from tokenizers import Tokenizer

    try:
        same: bool = Tokenizer.from_buffer(written).to_str() == tokenizer.to_str()
    except Exception:  # tokenizers raises bare Exceptions
        return False
    return same


def _check_symbols(symbols: Iterable[str], source: Path) -> None:
    for symbol in symbols:
        # fairseq separates symbols at every kind of white space.
        if symbol.split() != [symbol]:
            raise TrueNegError(f"{source}: its piece {symbol!r} has white space, which no dict.txt can hold")


def read_merges(vocab_bpe: bytes) -> list[tuple[str, str]]:
    """The merges in the content of GPT-2's ``vocab.bpe``, in their order."""
    lines = [line for line in vocab_bpe.decode("utf-8").split("\n") if line and not line.startswith("#version")]
    return [(left, right) for left, right in (line.split() for line in lines)]


_SENTENCEPIECE_SPACES = "\u200b\u200e\u200f\u2581\ufeff\ufffd"
"""What SentencePiece's normalization reads as spaces beside white space."""


def _trimmed(text: str, start: int, end: int, invisible: str = "") -> tuple[int, int]:
    """The place without the white space, and the ``invisible`` characters, around it."""
    while start < end and (text[start].isspace() or text[start] in invisible):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in invisible):
        end -= 1
    return start, end


def cut_at_spaces(text: str, length: int) -> list[str]:
    """Cuts before single spaces between words, where both BERT's and GPT-2's words begin."""
    pieces = []
    start = 0
    while len(text) - start > length:
        cut = text.rfind(" ", start + 1, start + length)
        while cut > start and (text[cut - 1].isspace() or text[cut + 1].isspace()):
            cut = text.rfind(" ", start + 1, cut)
        if cut <= start:
            break
        pieces.append(text[start:cut])
        start = cut
    return [*pieces, text[start:]]
