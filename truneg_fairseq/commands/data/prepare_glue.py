"""Prepares GLUE's official files for fairseq."""

from __future__ import annotations

from ...glue.files import TASKS
from ...glue.options import PrepareGlueOptions


def prepare_glue(options: PrepareGlueOptions) -> None:
    """Prepares GLUE's official files for fairseq's sentence_prediction task with the pre-trained model's own tokenizer,
    and prints what each task holds.
    """
    from ...glue.prepare import prepare_glue as prepare

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
