"""Text to BERT's WordPiece pieces, and BERT's vocabulary to a fairseq dictionary of the same size.

fairseq's dictionary starts with four symbols of its own and its masked-LM task appends ``<mask>``. They take the places
of BERT's five, so ``dict.txt`` holds the other entries in their order: 30,517 lines for the 30,522 entries of
bert-base-uncased, and converting weights is a permutation of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..errors import TrueNegError
from .files import make_output_folder, replacing_text

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FAIRSEQ_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
PIECES_SUFFIX = ".pieces"

_BATCH_LINES = 1_000
_BATCH_BYTES = 1 << 20
_CASED_SHARE = 0.05


@dataclass(frozen=True)
class EncodedFile:
    """What one text file became.

    Attributes:
        path: the file of pieces.
        lines: its lines, as many as the text has.
        blank: the lines among them without a piece.
        pieces: word pieces, unknown ones included.
        unknown: the pieces that are ``<unk>``.
    """

    path: Path
    lines: int
    blank: int
    pieces: int
    unknown: int


def read_vocabulary(path: Path) -> list[str]:
    """The entries of a BERT ``vocab.txt`` by id.

    Raises:
        TrueNegError: the file is missing or no UTF-8, lacks one of :data:`BERT_SPECIALS`, has an entry twice, or has
            one that a fairseq dictionary cannot hold (white space, or the name of a symbol of fairseq's own).
    """
    entries = list(read_lines(path))
    missing = [special for special in BERT_SPECIALS if special not in entries]
    if missing:
        raise TrueNegError(f"{path}: no {', '.join(missing)} among its {len(entries)} lines; give a BERT vocab.txt")
    first_line: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        # fairseq separates tokens at every kind of white space.
        if entry.split() != [entry]:
            raise TrueNegError(f"{path}: line {number} is {entry!r}; expected one entry without white space")
        if entry in FAIRSEQ_SPECIALS:
            raise TrueNegError(f"{path}: line {number} is {entry}, which is fairseq's own symbol; rename the entry")
        if first_line.setdefault(entry, number) != number:
            raise TrueNegError(f"{path}: line {number} repeats {entry!r} of line {first_line[entry]}; remove one")
    return entries


def build_tokenizer(vocabulary: Sequence[str], cased: bool = False) -> Any:
    """BERT's tokenizer without special tokens, a ``tokenizers.Tokenizer``.

    It is put together from its parts because the ready-made ``BertWordPieceTokenizer`` reads a literal "[MASK]" in the
    text as the mask; here it is punctuation and a word, as it should be in a corpus.

    Raises:
        TrueNegError: ``cased`` does not fit the vocabulary, which would turn words into unknown ones.
    """
    from tokenizers import Tokenizer
    from tokenizers.decoders import WordPiece as WordPieceDecoder
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    _check_case(vocabulary, cased)
    ids = {entry: index for index, entry in enumerate(vocabulary)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    # strip_accents=None: accents go where letters are lowered, as in BERT.
    tokenizer.normalizer = BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=not cased
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder(prefix="##")
    return tokenizer


def encode_files(vocab: Path, inputs: Sequence[Path], output_dir: Path, cased: bool = False) -> list[EncodedFile]:
    """Encodes text files line by line; ``NAME.txt`` becomes ``NAME.pieces``, pieces separated by spaces.

    Empty lines stay empty lines, and what the vocabulary cannot spell is ``<unk>``. ``dict.txt`` for fairseq and a
    copy of ``vocab.txt`` are written beside the pieces.

    Args:
        vocab: BERT's ``vocab.txt``.
        inputs: UTF-8 text files, every name once.
        output_dir: the folder to write; made where it is missing.
        cased: keep upper case and accents, for a cased vocabulary.

    Raises:
        TrueNegError: an input or the vocabulary is missing, empty, broken UTF-8 or does not fit, two inputs would be
            written to one file, or the folder belongs to another vocabulary.
    """
    vocabulary = read_vocabulary(vocab)
    tokenizer = build_tokenizer(vocabulary, cased)
    outputs = _output_paths(inputs, output_dir)
    make_output_folder(output_dir)
    _write_vocabulary(vocabulary, vocab, output_dir)
    return [_encode_file(tokenizer, source, output) for source, output in zip(inputs, outputs, strict=True)]


def _check_case(vocabulary: Sequence[str], cased: bool) -> None:
    upper = sum(entry != entry.lower() for entry in vocabulary if not entry.startswith("["))
    if cased and upper == 0:
        raise TrueNegError(
            "--cased: the vocabulary has no upper-case entry, so every capital would be lost; leave it out"
        )
    if not cased and upper > _CASED_SHARE * len(vocabulary):
        raise TrueNegError(
            f"--vocab: {upper:,} of {len(vocabulary):,} entries have upper-case letters, which lower-cased text never "
            "reaches; add --cased"
        )


def _output_paths(inputs: Sequence[Path], output_dir: Path) -> list[Path]:
    outputs = [output_dir / f"{source.stem}{PIECES_SUFFIX}" for source in inputs]
    for output, times in Counter(outputs).items():
        if times > 1:
            raise TrueNegError(f"--inputs: {times} files would be written to {output}; rename or encode them apart")
    for source in inputs:
        if not source.is_file():
            raise TrueNegError(f"{source}: no such file; --inputs expects text files")
        if source.stat().st_size == 0:
            raise TrueNegError(f"{source}: the file is empty; --inputs expects text, one document or sentence a line")
    return outputs


def _write_vocabulary(vocabulary: Sequence[str], vocab: Path, output_dir: Path) -> None:
    copy = output_dir / "vocab.txt"
    if copy.exists() and read_vocabulary(copy) != vocabulary:
        raise TrueNegError(f"{copy}: differs from {vocab}, so older pieces would not fit; choose another --output-dir")
    with replacing_text(copy) as stream:
        stream.writelines(f"{entry}\n" for entry in vocabulary)
    with replacing_text(output_dir / "dict.txt") as stream:
        stream.writelines(f"{entry} 1\n" for entry in vocabulary if entry not in BERT_SPECIALS)


def _encode_file(tokenizer: Any, source: Path, output: Path) -> EncodedFile:
    lines = blank = pieces = unknown = 0
    with (
        replacing_text(output) as stream,
        tqdm(total=source.stat().st_size, desc=source.name, unit="B", unit_scale=True) as progress,
    ):
        for batch in _batches(read_lines(source)):
            for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
                tokens = ["<unk>" if token == "[UNK]" else token for token in encoding.tokens]
                stream.write(" ".join(tokens) + "\n")
                blank += not tokens
                pieces += len(tokens)
                unknown += tokens.count("<unk>")
            lines += len(batch)
            progress.update(sum(len(line.encode("utf-8")) + 1 for line in batch))
        if pieces == 0:
            raise TrueNegError(f"{source}: none of its {lines} lines has any text")
    return EncodedFile(output, lines, blank, pieces, unknown)


def read_lines(path: Path) -> Iterator[str]:
    """The lines without their ends. Only a line feed ends a line, so form feeds and the like stay inside one."""
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                try:
                    yield raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise TrueNegError(
                        f"{path}: line {number} is not UTF-8 ({error.reason} at its byte {error.start + 1}); convert "
                        "the file to UTF-8"
                    ) from None
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({error.strerror})") from None


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines in batches that are bounded in number and in size, however long the lines are."""
    batch: list[str] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if len(batch) == _BATCH_LINES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
