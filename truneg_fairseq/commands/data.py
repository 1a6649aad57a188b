"""``truneg data``: from corpora to binarized text, and GLUE and SQuAD prepared for fairseq."""

from __future__ import annotations

from ..corpora.extract import ExtractOptions
from ..corpus_counts import CountOptions
from ..data.binarize import BinarizeOptions
from ..data.train_wordpiece import TrainWordpieceOptions
from ..finetuning.glue_files import TASKS
from ..finetuning.glue_options import PrepareGlueOptions
from ..finetuning.squad_options import PrepareSquadOptions


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


def prepare_glue(options: PrepareGlueOptions) -> None:
    """Prepares GLUE's official files for fairseq's sentence_prediction task with the pre-trained model's own tokenizer,
    and prints what each task holds.
    """
    from ..finetuning.glue_prepare import prepare_glue as prepare

    for folder, info, made in prepare(options):
        print(f"{folder}: {'made' if made else 'is already there; remove it to make it again'}")
        for name, split in info["splits"].items():
            longer = ", ".join(f"{count:,} longer than {length}" for length, count in split["longer_than"].items())
            print(
                f"{name}: {split['examples']:,} examples, {split['tokens']:,} tokens, {split['unknown']:,} unknown "
                f"({split['unknown'] / split['tokens']:.3%}), {longer}, {split['empty']:,} with an empty sentence, "
                f"{split['skipped']:,} broken lines skipped"
            )
        files = dict(TASKS[info["task"]].files)
        absent = [name for name in files if name not in info["splits"]]
        if absent:
            print(f"no {', '.join(absent)}: {', '.join(files[name] for name in absent)} not there")


def prepare_squad(options: PrepareSquadOptions) -> None:
    """Prepares SQuAD 1.1 or 2.0 as sliding windows with the pre-trained model's own tokenizer, and prints what each
    split holds.
    """
    from ..finetuning.squad_prepare import prepare_squad as prepare

    info, made = prepare(options)
    print(f"{options.output_dir}: {'made' if made else 'is already there; remove it to make it again'}")
    for name, split in info["splits"].items():
        longer = ", ".join(f"{count:,} longer than {length}" for length, count in split["longer_than"].items())
        print(
            f"{name}: {split['questions']:,} questions ({split['impossible']:,} impossible; {longer}; "
            f"{split['cut_queries']:,} cut to {options.max_query_length}) on {split['contexts']:,} contexts, "
            f"{split['windows']:,} windows ({split['without_answer']:,} without the answer), "
            f"{split['tokens']:,} tokens, {split['unknown']:,} unknown"
        )
        for reason, ids in split["not_found"].items():
            print(f"{name}: {'skipped' if name == 'train' else 'kept'} {len(ids):,}, {reason} (e.g. {ids[0]})")


COMMANDS = {
    "": "Turn corpora into text, train a tokenizer, binarize, count, prepare GLUE and SQuAD.",
    "text": text,
    "wordpiece": wordpiece,
    "binarize": binarize,
    "counts": counts,
    "prepare-glue": prepare_glue,
    "prepare-squad": prepare_squad,
}
