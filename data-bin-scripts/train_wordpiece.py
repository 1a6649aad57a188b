"""Trains a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch.

python data-bin-scripts/train_wordpiece.py --inputs text/train/*.txt --output own.txt
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tokenizers.trainers import WordPieceTrainer

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.data.text import read_lines, require_plain
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, bert_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import replacing_text, require_different, require_writable
from truneg_fairseq.flags import option
from truneg_fairseq.workers import Progress

ALPHABET_LIMIT = 1_000
"""The most frequent characters that get an entry; words with others become unknown (tokenizers' own limit for BERT)."""

# No word: one of 100 MB would take the trainer gigabytes. BERT's tokenizer knows none of more than 100 characters.
_ENDLESS_WORD = re.compile(r"\w{10001,}")


@dataclass(kw_only=True)
class Options:
    inputs: list[Path] = option(help="UTF-8 text", metavar="FILE")
    output: Path = option(help="vocab.txt to write; its folder is made where it is missing", metavar="FILE")
    vocab_size: int = option(
        30_522, help="most entries, special tokens included (default: 30522, as in BERT); little text gives fewer", ge=1
    )
    cased: bool = option(False, help="keep upper case and accents")


def wordpiece(options: Options) -> None:
    """Train a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch.

    The special tokens come first, then the characters, then the pieces in the order in which they were merged.
    """
    require_different(inputs=options.inputs, output=options.output)
    require_writable(options.output, "--output", makes_folders=True)  # said before minutes of training
    for path in options.inputs:
        require_plain(path)
    specials = list(BERT_SPECIALS)
    alphabet = train(options, 0, specials)[len(specials) :]
    if not alphabet:
        raise TrueNegError(
            f"{', '.join(map(str, options.inputs))}: no text to learn words from; expected lines of text"
        )
    # tokenizers numbers the characters inside words by the order of a hash map, which differs from run to run and also
    # decides between pairs of equal frequency. Numbered beforehand, they are the same in every run.
    continuing = sorted(entry for entry in alphabet if len(entry) > 1)
    entries = train(options, options.vocab_size, specials + continuing)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with replacing_text(options.output) as stream:
        stream.writelines(f"{entry}\n" for entry in entries)
    fewer = f" of {options.vocab_size:,}: the text has no more" if len(entries) < options.vocab_size else ""
    print(f"{options.output}: {len(entries):,} entries{fewer}")
    print(f"next: truneg data binarize --tokenizer {options.output} ...")


def train(options: Options, vocab_size: int, first_entries: list[str]) -> list[str]:
    """The entries by id. With a ``vocab_size`` below the number of characters: these only."""
    tokenizer = bert_tokenizer(BERT_SPECIALS, cased=options.cased)
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=first_entries,
        limit_alphabet=ALPHABET_LIMIT,
        show_progress=False,  # it would go to stdout
    )
    what = "words" if vocab_size else "characters"
    bars = (Progress(read_lines(path), desc=f"{what} of {path.name}", unit=" lines") for path in options.inputs)
    tokenizer.train_from_iterator((_ENDLESS_WORD.sub(" ", line) for line in chain.from_iterable(bars)), trainer)
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(vocabulary, key=vocabulary.__getitem__)


if __name__ == "__main__":
    run_as_script(wordpiece)
