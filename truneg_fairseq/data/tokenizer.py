"""The tokenizers of binarized data, one interface for all: text to the symbols of fairseq's dictionary and back.

A tokenizer's files lie beside ``dict.txt`` in the folder of binarized data, so that fine-tuning, conversion and
explanations cut text as the pre-training data were cut:

=============  ==========================  ==========================================================
kind           files                       symbols of the dictionary
=============  ==========================  ==========================================================
wordpiece      vocab.txt, tokenizer.json   BERT's entries without its five special tokens
sentencepiece  sentencepiece.model         the pieces
gpt2           encoder.json, vocab.bpe     GPT-2's numbers, as in the data of fairseq's RoBERTa recipe
fast           tokenizer.json,             the tokens without the five special ones; ``<id:N>`` for token N where it
               tokenizer_config.json       has white space or the name of one of fairseq's symbols
=============  ==========================  ==========================================================

fairseq's dictionary starts with four symbols of its own and its masked-LM task appends ``<mask>``. They take the places
of BERT's five special tokens: 30,517 lines of ``dict.txt`` for the 30,522 entries of bert-base-uncased, and converting
weights is a permutation of rows. So it is with the special tokens of any other tokenizer (:mod:`.special_tokens`).
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from ..corpora.text import read_lines
from ..errors import TrueNegError, reason, require, unreadable
from ..files import make_output_folder, parse_json, replacing_file
from ..options import flag_of, option
from ..vocabulary import (
    MASK_SYMBOL,
    SPECIAL_SYMBOLS,
    UNKNOWN_SYMBOL,
    Vocabulary,
    gpt2_encoder_beside,
    is_cased,
    tokenization_of,
)
from .special_tokens import BERT_TOKENS, CONFIG, TOKENIZER, config_of, special_tokens

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_BY_NUMBER = re.compile(r"<id:(\d+)>")


class TextTokenizer(ABC):
    """Text to symbols of a fairseq dictionary and back; special symbols are never made from text."""

    # "wordpiece", "sentencepiece" or "gpt2", also the name of its whole words in
    # :data:`truneg_fairseq.vocabulary.TOKENIZATIONS`; or "fast", whose tokens show how they mark words
    kind: ClassVar[str]
    file_names: ClassVar[tuple[str, ...]]  # the files that hold all there is to know

    @property
    @abstractmethod
    def symbol_of(self) -> tuple[str, ...]:
        """The symbol by the tokenizer's own number; ``<unk>`` where a number has none."""

    @property
    def added_symbols(self) -> Collection[str]:
        """Symbols that were added to the trained ones: words, though without the mark of words."""
        return ()

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


class FastTokenizer(TextTokenizer):
    """A tokenizer that the package tokenizers computes: of any tokenizer.json.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``; special tokens that it lacks are added to it.
        specials: the tokens of fairseq's special symbols.
    """

    kind = "fast"
    file_names = (TOKENIZER, CONFIG)

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
        from tokenizers import Tokenizer

        path = folder / TOKENIZER if folder.is_dir() else folder
        try:
            tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except Exception as error:  # the library raises plain Exception
            raise TrueNegError(
                f"{path}: {unreadable(error)}; expected a fast tokenizer, as save_pretrained of transformers writes it"
            ) from None
        made = cls(tokenizer, special_tokens(tokenizer.get_vocab(), path.parent))
        tokens_by_number(made._tokenizer.get_vocab(), path)
        return made

    @property
    def tokenization(self) -> str:
        """How it marks whole words, "auto" where that is not known."""
        return tokenization_of(self._tokenizer.to_str())

    @cached_property
    def _token_of(self) -> dict[int, str]:
        return {number: token for token, number in self._tokenizer.get_vocab().items()}

    @override
    @cached_property
    def symbol_of(self) -> tuple[str, ...]:
        return tuple(self._symbol(number, self._token_of.get(number)) for number in range(max(self._token_of) + 1))

    def _symbol(self, number: int, token: str | None) -> str:
        if token is None or token in self.special_tokens.values():
            return UNKNOWN_SYMBOL
        # fairseq separates symbols at every kind of white space.
        return f"<id:{number}>" if token.split() != [token] or token in SPECIAL_SYMBOLS else token

    @override
    @cached_property
    def added_symbols(self) -> Collection[str]:
        added = self._tokenizer.get_added_tokens_decoder().items()
        return {self.symbol_of[number] for number, token in added if not token.special}

    @override
    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        return [e.ids for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    @override
    def encode_with_offsets(self, text: str) -> list[tuple[str, int, int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [
            (self.symbol_of[number], *trimmed(text, *place))
            for number, place in zip(encoding.ids, encoding.offsets, strict=True)
        ]

    @cached_property
    def _token_of_symbol(self) -> dict[str, str]:
        numbered = enumerate(self.symbol_of)
        return {symbol: self._token_of[number] for number, symbol in numbered if symbol != UNKNOWN_SYMBOL}

    @override
    def decode(self, symbols: Sequence[str]) -> str:
        tokens = [self._token_of_symbol.get(symbol, symbol) for symbol in symbols]
        decoder = self._tokenizer.decoder
        return " ".join(tokens) if decoder is None else str(decoder.decode(tokens))

    @override
    def contents(self) -> dict[str, bytes]:
        return {
            TOKENIZER: self._tokenizer.to_str(pretty=True).encode(),
            CONFIG: json.dumps(config_of(self.special_tokens), ensure_ascii=False, indent=2).encode(),
        }


class _CutAtSpaces(FastTokenizer):
    """A tokenizer whose words begin at white space, as those of BERT and GPT-2 do."""

    @override
    def cut(self, text: str, length: int) -> list[str]:
        """Cuts before single spaces between words."""
        pieces, start = [], 0
        while len(text) - start > length:
            cut = text.rfind(" ", start + 1, start + length)
            while cut > start and (text[cut - 1].isspace() or text[cut + 1].isspace()):
                cut = text.rfind(" ", start + 1, cut)
            if cut <= start:
                break
            pieces.append(text[start:cut])
            start = cut
        return [*pieces, text[start:]]


class WordPieceTokenizer(_CutAtSpaces):
    """BERT's tokenizer of the entries of ``vocab.txt``."""

    kind = "wordpiece"
    file_names = ("vocab.txt", TOKENIZER)

    def __init__(self, vocabulary: Sequence[str], cased: bool = False) -> None:
        super().__init__(build_tokenizer(vocabulary, cased), BERT_TOKENS)
        self.vocabulary, self.cased = tuple(vocabulary), cased

    @override
    @classmethod
    def load(cls, folder: Path) -> WordPieceTokenizer:
        lowercase = json.loads((folder / TOKENIZER).read_bytes())["normalizer"]["lowercase"]
        return cls(read_vocabulary(folder / "vocab.txt"), not lowercase)

    @override
    def contents(self) -> dict[str, bytes]:
        vocabulary = "".join(f"{entry}\n" for entry in self.vocabulary)
        return {"vocab.txt": vocabulary.encode(), TOKENIZER: self._tokenizer.to_str(pretty=True).encode()}


class SentencePieceTokenizer(TextTokenizer):
    """A SentencePiece model, given as the content of its file; ``source`` is what an error message names."""

    kind = "sentencepiece"
    file_names = ("sentencepiece.model",)

    def __init__(self, model: bytes, source: Path = Path("sentencepiece.model")) -> None:
        require("sentencepiece", extra="fairseq")
        from sentencepiece import SentencePieceProcessor

        self._model = model
        try:
            if not model:  # of which it makes a processor that fails later
                raise ValueError("it is empty")
            self._processor = SentencePieceProcessor(model_proto=model)
            # fairseq separates symbols at every kind of white space.
            if spaced := [symbol for symbol in self.symbol_of if symbol.split() != [symbol]]:
                raise ValueError(f"its piece {spaced[0]!r} has white space, which no dict.txt can hold")
        except (RuntimeError, ValueError) as error:
            raise TrueNegError(f"{source}: not a SentencePiece model ({reason(error)}); give the .model file") from None

    @classmethod
    def load(cls, folder: Path) -> SentencePieceTokenizer:
        path = folder / "sentencepiece.model"
        return cls(path.read_bytes(), path)

    @override
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

    @override
    @cached_property
    def added_symbols(self) -> Collection[str]:
        require("google.protobuf", extra="fairseq")
        from sentencepiece import sentencepiece_model_pb2

        model_proto: Any = sentencepiece_model_pb2
        pieces = model_proto.ModelProto.FromString(self._model).pieces
        return {each.piece for each in pieces if each.type == model_proto.ModelProto.SentencePiece.USER_DEFINED}

    @override
    def encode_numbers(self, texts: Sequence[str]) -> list[Any]:
        return list(self._processor.encode(list(texts), return_type="numpy", num_threads=1))

    @override
    def encode_with_offsets(self, text: str) -> list[tuple[str, int, int]]:
        encoded = self._processor.encode(text, return_type="offset_mapping")
        return [
            (self.symbol_of[number], *trimmed(text, start, end, invisible=_SENTENCEPIECE_SPACES))
            for number, (start, end) in zip(encoded["ids"], encoded["offsets"], strict=True)
        ]

    @override
    def decode(self, symbols: Sequence[str]) -> str:
        return str(self._processor.decode(list(symbols)))

    @override
    def contents(self) -> dict[str, bytes]:
        return {"sentencepiece.model": self._model}


class Gpt2Tokenizer(_CutAtSpaces):
    """GPT-2's byte-level BPE, whose symbols are its numbers, made of its two files' contents."""

    kind = "gpt2"
    file_names = ("encoder.json", "vocab.bpe")

    def __init__(self, encoder_json: bytes, vocab_bpe: bytes, source: Path = Path("encoder.json")) -> None:
        from tokenizers import Tokenizer, decoders, models
        from tokenizers.pre_tokenizers import ByteLevel

        self._files = {"encoder.json": encoder_json, "vocab.bpe": vocab_bpe}
        try:
            numbers = parse_json(encoder_json, str(source), dict[str, int], expected="tokens: numbers")
            self._merges = read_merges(vocab_bpe)
            tokenizer = Tokenizer(models.BPE(numbers, self._merges))
            if lacking := [token for token in ByteLevel.alphabet() if token not in numbers]:
                raise ValueError(f"{len(lacking)} of the 256 bytes have no token, e.g. {min(lacking)!r}")
            if max(numbers.values()) > 2 * len(numbers):  # a dictionary has all up to it
                raise ValueError(f"its numbers go to {max(numbers.values()):,}")
        except Exception as error:  # tokenizers raises bare Exceptions, and ValueErrors of several kinds
            raise TrueNegError(
                f"{source}: does not make a BPE with its vocab.bpe ({reason(error)}); expected the two files of GPT-2"
            ) from None
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        # Other byte-level tokenizers have fairseq's special symbols among their tokens; no text may hold them.
        super().__init__(tokenizer, {symbol: symbol for symbol in SPECIAL_SYMBOLS if symbol in numbers})

    @override
    @classmethod
    def load(cls, folder: Path) -> Gpt2Tokenizer:
        encoder_json = folder / "encoder.json"
        return cls(encoder_json.read_bytes(), (folder / "vocab.bpe").read_bytes(), encoder_json)

    @override
    def _symbol(self, number: int, token: str | None) -> str:
        return UNKNOWN_SYMBOL if token is None or token in self.special_tokens else str(number)

    @override
    @cached_property
    def added_symbols(self) -> Collection[str]:
        from tokenizers.pre_tokenizers import ByteLevel

        trained = {*ByteLevel.alphabet(), *(left + right for left, right in self._merges)}
        return {
            str(number)
            for number, token in self._token_of.items()
            if token not in trained and not re.fullmatch(r"<.*>", token)  # <|endoftext|>, <s>
        }

    @override
    def contents(self) -> dict[str, bytes]:
        return self._files


TOKENIZERS: dict[str, type[FastTokenizer] | type[SentencePieceTokenizer]] = {
    made.kind: made for made in (WordPieceTokenizer, SentencePieceTokenizer, Gpt2Tokenizer, FastTokenizer)
}


def load_tokenizer(folder: Path | str) -> TextTokenizer:
    """The tokenizer whose files lie in a folder of binarized data."""
    return TOKENIZERS[_kind_of(folder := Path(folder))].load(folder)


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a folder's tokenizer, to be copied wherever its ``dict.txt`` goes."""
    return [folder / name for name in TOKENIZERS[_kind_of(folder)].file_names]


def _kinds_in(folder: Path) -> list[str]:
    return [kind for kind, made in TOKENIZERS.items() if all((folder / name).is_file() for name in made.file_names)]


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder has the files of one tokenizer."""
    return len(_kinds_in(folder)) == 1


def _kind_of(folder: Path) -> str:
    kinds = _kinds_in(folder)
    if len(kinds) == 1:
        return kinds[0]
    files = "; ".join(f"{' and '.join(tokenizer.file_names)} ({kind})" for kind, tokenizer in TOKENIZERS.items())
    found = f"the files of {' and '.join(kinds)}" if kinds else "no tokenizer beside its data"
    raise TrueNegError(f"{folder}: has {found}; expected one tokenizer, as 'truneg data binarize' writes it: {files}")


def vocabulary_of(symbols: Sequence[str], data: Path, *, tokenization: str = "auto") -> Vocabulary:
    """:meth:`Vocabulary.from_symbols` for the folder ``data``, whose tokenizer knows how whole words are marked."""
    kind = kinds[0] if len(kinds := _kinds_in(data)) == 1 else None
    added: Collection[str] = ()
    if kind is not None and (kind == FastTokenizer.kind or tokenization in ("auto", kind)):
        tokenizer = load_tokenizer(data)
        if tokenization == "auto":
            tokenization = tokenizer.tokenization if isinstance(tokenizer, FastTokenizer) else kind
        added = tokenizer.added_symbols
    special = {*SPECIAL_SYMBOLS, *filter(_BY_NUMBER.fullmatch, symbols)}
    return Vocabulary.from_symbols(symbols, tokenization, gpt2_encoder_beside(data), special=special, added=added)


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


def check_dictionary(tokenizer: TextTokenizer, symbols: Collection[str], named: str, *, lacking_share: float) -> None:
    """Raises where a dictionary lacks more than a share of the tokenizer's symbols; the message calls it ``named``."""
    known, own = set(symbols), tokenizer.symbols()
    lacking = [symbol for symbol in own if symbol not in known]
    if len(lacking) > lacking_share * len(own):
        raise TrueNegError(
            f"{named}: lacks {len(lacking):,} of the tokenizer's {len(own):,} symbols (e.g. {lacking[0]!r}); expected "
            "the dictionary and the tokenizer of one model"
        )


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """The flags that name a tokenizer: a fast one, WordPiece, SentencePiece, or GPT-2 BPE."""

    tokenizer: Path | None = option(
        None, help="any fast tokenizer of Hugging Face: its folder or tokenizer.json", metavar="DIR"
    )
    vocab: Path | None = option(None, help="WordPiece: BERT's vocab.txt", metavar="FILE")
    cased: bool = option(False, help="with --vocab: keep upper case and accents")
    sentencepiece_model: Path | None = option(None, help="SentencePiece: the .model file", metavar="FILE")
    gpt2_encoder_json: Path | None = option(None, help="GPT-2 BPE: encoder.json", metavar="FILE")
    gpt2_vocab_bpe: Path | None = option(None, help="GPT-2 BPE: vocab.bpe", metavar="FILE")

    def load(self) -> TextTokenizer:
        """The tokenizer that the flags name."""
        try:
            return self._load()
        except (FileNotFoundError, IsADirectoryError) as error:
            named = {str(getattr(self, each.name)): flag_of(each.name) for each in fields(TokenizerOptions)}
            flag = named.get(str(error.filename), "tokenizer:")
            found = "is a folder" if isinstance(error, IsADirectoryError) else "no such file"
            raise TrueNegError(f"{flag} {error.filename}: {found}; give the tokenizer's file") from None

    def _load(self) -> TextTokenizer:
        match (self.tokenizer, self.vocab, self.sentencepiece_model, self.gpt2_encoder_json, self.gpt2_vocab_bpe):
            case (Path() as path, None, None, None, None):
                return FastTokenizer.load(path)
            case (None, Path() as vocab, None, None, None):
                entries = read_vocabulary(vocab)
                # Scripts without capitals need cased, too: lowering text takes accents, which in Hindi are vowels.
                if not self.cased and is_cased(entries):
                    raise TrueNegError(
                        f"--vocab {vocab}: has entries with upper-case letters, lower-cased text has none; add --cased"
                    )
                return WordPieceTokenizer(entries, self.cased)
            case (None, None, Path() as model, None, None):
                return SentencePieceTokenizer(model.read_bytes(), model)
            case (None, None, None, Path() as encoder_json, Path() as vocab_bpe):
                return Gpt2Tokenizer(encoder_json.read_bytes(), vocab_bpe.read_bytes(), encoder_json)
        raise TrueNegError(
            "tokenizer: expected one of --tokenizer, --vocab, --sentencepiece-model, or --gpt2-encoder-json with "
            "--gpt2-vocab-bpe"
        )


def read_vocabulary(path: Path) -> list[str]:
    """The entries of a BERT ``vocab.txt`` by id."""
    entries = list(read_lines(path))
    if missing := [special for special in BERT_SPECIALS if special not in entries]:
        raise TrueNegError(f"{path}: no {', '.join(missing)} among its {len(entries)} lines; give a BERT vocab.txt")
    known: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        # fairseq separates tokens at every kind of white space.
        if entry.split() != [entry] or entry in SPECIAL_SYMBOLS or entry in known:
            raise TrueNegError(
                f"{path}: line {number} is {entry!r}; expected entries without white space, each once, and none of "
                f"fairseq's own {', '.join(sorted(SPECIAL_SYMBOLS))}"
            )
        known.add(entry)
    return entries


def build_tokenizer(vocabulary: Sequence[str], cased: bool = False) -> Any:
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


_SENTENCEPIECE_SPACES = "\u200b\u200e\u200f\u2581\ufeff\ufffd"
"""What SentencePiece's normalization reads as spaces beside white space."""


def trimmed(text: str, start: int, end: int, invisible: str = "") -> tuple[int, int]:
    """The place without the white space, and the ``invisible`` characters, around it."""
    while start < end and (text[start].isspace() or text[start] in invisible):
        start += 1
    while end > start and (text[end - 1].isspace() or text[end - 1] in invisible):
        end -= 1
    return start, end
