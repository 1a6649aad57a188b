"""``truneg data``: from corpora to binarized text, and GLUE and SQuAD prepared for fairseq."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..corpora.extract import ExtractOptions
from ..data.binarize import BinarizeOptions
from ..data.train_wordpiece import TrainWordpieceOptions
from ..files import is_new
from ..finetuning.options import SLURM, LaunchOptions
from ..glue.files import TASKS
from ..glue.options import PrepareGlueOptions
from ..options import option, select
from ..squad.options import PrepareSquadOptions
from ..synonyms.glosses import ExtractGlossesOptions


@dataclass(frozen=True, kw_only=True)
class ExtractCorpusOptions(ExtractOptions, LaunchOptions):
    """As a command: perhaps in a job of SLURM."""


@dataclass(frozen=True, kw_only=True)
class BinarizeTextOptions(BinarizeOptions, LaunchOptions):
    """As a command: perhaps in jobs of SLURM."""

    jobs: int = option(1, "with --launcher slurm: jobs that share the work", ge=1)


@dataclass(frozen=True)
class _Part:
    """What a job does, and how it is called."""

    name: str
    work: Callable[[], object]


def _in_jobs(output: Path, parts: Sequence[_Part], options: LaunchOptions) -> None:
    """Calls each part in a job of SLURM, all at once; the logs are beside the output, in ``OUTPUT.slurm``."""
    from ..finetuning.jobs import Job, run_jobs
    from ..finetuning.slurm import call_in_job

    def execute(part: _Part, job: Job) -> None:
        folder = output.with_name(f"{output.name}.{SLURM}") / part.name.replace(" ", "-")
        call_in_job(part.work, name=part.name, folder=folder, options=options.slurm, poll=lambda: job.progress(0))

    run_jobs(execute, parts, [None] * len(parts), lengths=[1] * len(parts), unit=" jobs")


def extract_corpus(options: ExtractCorpusOptions) -> None:
    """Extracts a dataset or files to plain text: a paragraph a line, a blank line behind every document.

    Killed or failed, it is run again with the same flags and continues with the files that are missing.
    """
    from ..corpora.extract import extract

    if options.launcher == SLURM and is_new(options.output_dir):
        _in_jobs(options.output_dir, [_Part("extract", partial(extract, select(ExtractOptions, options)))], options)
    for split, counts in extract(options).items():
        print(
            f"{options.output_dir / split}: {counts['documents']:,} documents, {counts['lines']:,} lines"
            + (f", {counts['replaced']:,} lines with U+FFFD (broken UTF-8)" if counts["replaced"] else "")
        )


def extract_glosses(options: ExtractGlossesOptions) -> None:
    """Writes WordNet's glosses and examples as train.txt and valid.txt, one synset a line."""
    from ..synonyms.glosses import extract_glosses as run

    train, valid = run(options)
    print(f"{options.output_dir / 'train.txt'}: {train:,} lines")
    print(f"{options.output_dir / 'valid.txt'}: {valid:,} lines")


def train_wordpiece(options: TrainWordpieceOptions) -> None:
    """Trains a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch."""
    from ..data.train_wordpiece import train_wordpiece as run

    entries = run(options)
    fewer = f" of {options.vocab_size:,}: the text has no more" if entries < options.vocab_size else ""
    print(f"{options.output}: {entries:,} entries{fewer}")


def binarize(options: BinarizeTextOptions) -> None:
    """Binarizes text for fairseq: a line is an item, a blank line keeps documents apart.

    Killed or failed, it is run again with the same flags and continues. On many machines that share a folder, each runs
    --shard i/n first; the run without --shard does what is missing and puts everything together. --launcher slurm does
    both.
    """
    from ..data.binarize import binarize as run

    is_made = is_new(options.output_dir)
    if options.launcher == SLURM and is_made:
        alone = select(BinarizeOptions, options)
        shards = [f"{number}/{options.jobs}" for number in range(1, options.jobs + 1)]
        parts = [_Part(f"shard {each.partition('/')[0]}", partial(run, replace(alone, shard=each))) for each in shards]
        if options.jobs > 1:
            _in_jobs(options.output_dir, parts, options)
        _in_jobs(options.output_dir, [_Part("binarize", partial(run, alone))], options)
    done = run(options)
    if options.shard is not None:
        print(f"{options.output_dir}: shard {options.shard} is done; a run without --shard puts all together")
    else:
        print(f"{options.output_dir}: {'binarized' if is_made else 'is already there; remove it to binarize again'}")
    for split, counts in done.splits.items():
        print(
            f"{split}: {counts.documents:,} documents, {counts.lines:,} lines ({counts.blank:,} blank), "
            f"{counts.tokens:,} tokens, {counts.unknown:,} unknown ({counts.unknown / max(1, counts.tokens):.3%})"
            + (f", {counts.written_unknown:,} of them as <unk> in the text" if counts.written_unknown else "")
            + (f", {counts.replaced:,} lines repaired (broken UTF-8)" if counts.replaced else "")
        )


def prepare_glue(options: PrepareGlueOptions) -> None:
    """Prepares GLUE's official files for fairseq's sentence_prediction task with the pre-trained model's own tokenizer,
    and prints what each task holds.
    """
    from ..glue.prepare import prepare_glue as prepare

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
    from ..squad.prepare import prepare_squad as prepare

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
    "": "Extract corpora to text, train a tokenizer, binarize text, prepare GLUE and SQuAD.",
    "extract-corpus": extract_corpus,
    "extract-glosses": extract_glosses,
    "train-wordpiece": train_wordpiece,
    "binarize": binarize,
    "prepare-glue": prepare_glue,
    "prepare-squad": prepare_squad,
}
