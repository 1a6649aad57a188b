"""``truneg data``: from corpora to binarized text, and tasks prepared for fine-tuning."""

from __future__ import annotations

from ..corpora.extract import ExtractOptions
from ..corpus_counts import CountOptions
from ..data.binarize import BinarizeOptions
from ..data.train_wordpiece import TrainWordpieceOptions
from ..finetuning import PrepareOptions


def text(options: ExtractOptions) -> None:
    """Turn a dataset or files into plain text: a paragraph per line, a blank line behind every document.

    Killed or failed, it is run again with the same flags and continues with the files that are missing.
    """
    from ..corpora.extract import extract

    made = extract(options)
    for split, counts in made.items():
        print(
            f"{options.output_dir / split}: {counts['documents']:,} documents, {counts['lines']:,} lines"
            + (f", {counts['replaced']:,} lines with U+FFFD (broken UTF-8)" if counts["replaced"] else "")
        )
    print(f"next: truneg data binarize --train {options.output_dir / next(iter(made))} ...")


def wordpiece(options: TrainWordpieceOptions) -> None:
    """Train a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch."""
    from ..data.train_wordpiece import train_wordpiece

    entries = train_wordpiece(options)
    fewer = f" of {options.vocab_size:,}: the text has no more" if entries < options.vocab_size else ""
    print(f"{options.output}: {entries:,} entries{fewer}; next: truneg data binarize --tokenizer {options.output} ...")


def binarize(options: BinarizeOptions) -> None:
    """Binarize text for fairseq: a line is an item, a blank line keeps documents apart.

    Killed or failed, it is run again with the same flags and continues. On many machines that share a folder, each runs
    --shard i/n first; the run without --shard does what is missing and puts everything together.
    """
    from ..data.binarize import binarize as run

    done = run(options)
    if options.shard is not None:
        print(f"{options.output_dir}: shard {options.shard} is done; a run without --shard puts all together")
    else:
        print(f"{options.output_dir}: {'binarized' if done.made else 'is already there; remove it to binarize again'}")
    for split, counts in done.splits.items():
        print(
            f"{split}: {counts.lines:,} lines, {counts.tokens:,} tokens, {counts.unknown:,} unknown "
            f"({counts.unknown / max(1, counts.tokens):.3%})"
            + (f", {counts.replaced:,} lines with U+FFFD (broken UTF-8)" if counts.replaced else "")
        )
    if options.shard is None:
        print(
            f"next: truneg train {options.output_dir} --task masked_lm --criterion masked_lm_hc --arch roberta_base ..."
        )


def counts(options: CountOptions) -> None:
    """Count the neighbours of a corpus's tokens, for --corpus-targets: what stands beside a token, and between two.

    The training text is counted, in the numbers of its dictionary.
    """
    from ..corpus_counts import count_corpus

    output, found = count_corpus(options)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB)")
    print(found.summary)
    print(f"next: a training with --corpus-targets 0.1, or truneg evaluate MODEL --corpus-counts {output} ...")


def prepare(options: PrepareOptions) -> None:
    """Prepare GLUE's and SQuAD's official files for fine-tuning, with the pre-trained model's own tokenizer.

    Prints what each task holds.
    """
    from ..finetuning.run import prepare as run

    for folder, lines, made in run(options):
        print(f"{folder}: {'made' if made else 'is already there; remove it to make it again'}")
        print("\n".join(lines))


COMMANDS = {
    "": "Turn corpora into text, train a tokenizer, binarize, count, prepare tasks for fine-tuning.",
    "text": text,
    "wordpiece": wordpiece,
    "binarize": binarize,
    "counts": counts,
    "prepare": prepare,
}
