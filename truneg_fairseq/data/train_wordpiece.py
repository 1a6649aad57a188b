"""A BERT WordPiece vocabulary of one's own, from plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ..corpora.text import read_lines, require_plain
from ..errors import TrueNegError
from ..files import replacing_text, require_different, require_writable
from ..options import check, option
from ..workers import Progress
from .tokenizer import BERT_SPECIALS, bert_tokenizer

ALPHABET_LIMIT = 1_000
"""The most frequent characters that get an entry; words with others become unknown (tokenizers' own limit for BERT)."""

# No word: one of 100 MB would take the trainer gigabytes. BERT's tokenizer knows none of more than 100 characters.
_ENDLESS_WORD = re.compile(r"\w{10001,}")


@dataclass(kw_only=True)
class TrainWordpieceOptions:
    """What to learn a vocabulary from."""

    inputs: list[Path] = option(help="UTF-8 text", metavar="FILE")
    output: Path = option(help="vocab.txt to write; its folder is made where it is missing", metavar="FILE")
    vocab_size: int = option(
        30_522, help="most entries, special tokens included (default: 30522, as in BERT); little text gives fewer", ge=1
    )
    cased: bool = option(False, help="keep upper case and accents")


def train_wordpiece(options: TrainWordpieceOptions) -> int:
    """Trains a WordPiece vocabulary, writes it as BERT's ``vocab.txt``, one entry a line, and returns its size.

    The five special tokens come first, then the characters, then the pieces in the order in which they were merged. The
    same text gives the same file, as long as it has no more than :data:`ALPHABET_LIMIT` different characters.
    """
    check(options)
    inputs, output, vocab_size, cased = options.inputs, options.output, options.vocab_size, options.cased
    require_different(inputs=inputs, output=output)
    require_writable(output, "--output", makes_folders=True)
    for path in inputs:
        require_plain(path)
    specials = list(BERT_SPECIALS)
    alphabet = _train(inputs, cased, vocab_size=0, first_entries=specials)[len(specials) :]
    if not alphabet:
        raise TrueNegError(f"{', '.join(map(str, inputs))}: no text to learn words from; expected lines of text")
    # tokenizers numbers the characters inside words by the order of a hash map, which differs from run to run and also
    # decides between pairs of equal frequency. Numbered beforehand, they are the same in every run.
    continuing = sorted(entry for entry in alphabet if len(entry) > 1)
    entries = _train(inputs, cased, vocab_size, first_entries=specials + continuing)
    output.parent.mkdir(parents=True, exist_ok=True)
    with replacing_text(output) as stream:
        stream.writelines(f"{entry}\n" for entry in entries)
    return len(entries)


def _train(inputs: Sequence[Path], cased: bool, vocab_size: int, first_entries: list[str]) -> list[str]:
    """The entries by id. With a ``vocab_size`` below the number of characters: these only."""
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = bert_tokenizer(BERT_SPECIALS, cased=cased)
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=first_entries,
        limit_alphabet=ALPHABET_LIMIT,
        show_progress=False,  # it would go to stdout
    )
    what = "words" if vocab_size else "characters"
    bars = (Progress(read_lines(path), desc=f"{what} of {path.name}", unit=" lines") for path in inputs)
    tokenizer.train_from_iterator((_ENDLESS_WORD.sub(" ", line) for line in chain.from_iterable(bars)), trainer)
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(vocabulary, key=vocabulary.__getitem__)
