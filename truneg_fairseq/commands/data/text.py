"""Commands from text to binarized data."""

from __future__ import annotations

from ...corpora.extract import ExtractOptions
from ...data.binarize import BinarizeOptions
from ...data.train_wordpiece import TrainWordpieceOptions
from ...synonyms.glosses import ExtractGlossesOptions


def extract_corpus(options: ExtractOptions) -> None:
    """Extracts a dataset or files to plain text: a paragraph a line, a blank line behind every document.

    Killed or failed, it is run again with the same flags and continues with the files that are missing.
    """
    from ...corpora.extract import extract

    for split, counts in extract(options).items():
        print(
            f"{options.output_dir / split}: {counts['documents']:,} documents, {counts['lines']:,} lines"
            + (f", {counts['replaced']:,} lines with U+FFFD (broken UTF-8)" if counts["replaced"] else "")
        )


def extract_glosses(options: ExtractGlossesOptions) -> None:
    """Writes WordNet's glosses and examples as train.txt and valid.txt, one synset a line."""
    from ...synonyms.glosses import extract_glosses as run

    train, valid = run(options)
    print(f"{options.output_dir / 'train.txt'}: {train:,} lines")
    print(f"{options.output_dir / 'valid.txt'}: {valid:,} lines")


def train_wordpiece(options: TrainWordpieceOptions) -> None:
    """Trains a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch."""
    from ...data.train_wordpiece import train_wordpiece as run

    entries = run(options)
    fewer = f" of {options.vocab_size:,}: the text has no more" if entries < options.vocab_size else ""
    print(f"{options.output}: {entries:,} entries{fewer}")


def binarize(options: BinarizeOptions) -> None:
    """Binarizes text for fairseq: a line is an item, a blank line keeps documents apart.

    Killed or failed, it is run again with the same flags and continues. On many machines that share a folder, each runs
    --shard i/n first; the run without --shard does what is missing and puts everything together.
    """
    from ...data.binarize import binarize as run

    done = run(options)
    if options.shard is not None:
        print(f"{options.output_dir}: shard {options.shard} is done; a run without --shard puts all together")
    else:
        print(f"{options.output_dir}: {'binarized' if done.made else 'is already there; remove it to binarize again'}")
    for split, counts in done.splits.items():
        print(
            f"{split}: {counts.documents:,} documents, {counts.lines:,} lines ({counts.blank:,} blank), "
            f"{counts.tokens:,} tokens, {counts.unknown:,} unknown ({counts.unknown / max(1, counts.tokens):.3%})"
            + (f", {counts.written_unknown:,} of them as <unk> in the text" if counts.written_unknown else "")
            + (f", {counts.replaced:,} lines repaired (broken UTF-8)" if counts.replaced else "")
        )
