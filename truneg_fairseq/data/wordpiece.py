"""BERT's WordPiece: its vocabulary, and text to its pieces.

fairseq's dictionary starts with four symbols of its own and its masked-LM task appends ``<mask>``. They take the places
of BERT's five, so ``dict.txt`` holds the other entries in their order: 30,517 lines for the 30,522 entries of
bert-base-uncased, and converting weights is a permutation of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..corpora.text import read_lines
from ..errors import TrueNegError
from ..vocabulary import is_cased

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FAIRSEQ_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def read_vocabulary(path: Path) -> list[str]:
    """The entries of a BERT ``vocab.txt`` by id."""
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


def _check_case(vocabulary: Sequence[str], cased: bool) -> None:
    words = [entry for entry in vocabulary if not entry.startswith("[")]
    upper = sum(entry != entry.lower() for entry in words)
    # Scripts without capitals need cased: lowering text takes accents too, which in Hindi are vowels.
    if cased and upper == 0 and any(entry != entry.upper() for entry in words):
        raise TrueNegError(
            "--cased: the vocabulary has no upper-case entry, so every capital would be lost; leave it out"
        )
    if not cased and is_cased(vocabulary):
        raise TrueNegError(
            f"--vocab: {upper:,} of {len(vocabulary):,} entries have upper-case letters, which lower-cased text never "
            "reaches; add --cased"
        )
