"""What evaluations do, and the process of its own that each has: its memory and its GPU, its log, an end by signals.

``python -m truneg_fairseq.experiments.steps FILE`` is that process. The functions import what they need when they are
called: it sets up its log first.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..errors import one_line_errors
from ..evaluation.models import OpeningOptions
from ..evaluation.yardstick import Task
from ..files import replacing_text
from ..finetuning.options import FinetuneOptions, PredictOptions
from ..launch.process import PACKAGES, call_kept, end_with_command, keep_call, run_logged
from ..results.names import NamedModel
from .settings import Attack

Step = Callable[[], None]


def call_logged(steps: Sequence[Step], *, log: Path, poll: Callable[[], None], device: str | None) -> int:
    """Calls functions of this package in a fresh process, as :func:`..launch.process.run_logged` runs a command."""
    work = log.with_suffix(".json").resolve()
    keep_call(work, partial(_call, list(steps)))
    command = [sys.executable, "-m", __name__, str(work)]
    try:
        return run_logged(command, folder=PACKAGES, log=log, poll=poll, device=device)
    finally:
        work.unlink()


def main(work: Path) -> None:
    """In the new process."""
    end_with_command()
    # Before fairseq is imported: its import would make the root logger print other packages' INFO and DEBUG lines.
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("truneg_fairseq").setLevel(logging.INFO)
    with one_line_errors():
        call_kept(work)


def _call(steps: Sequence[Step]) -> None:
    for step in steps:
        print(step)
        step()


class Asked(NamedTuple):
    """A yardstick for a model, and maybe for its earlier checkpoints before it."""

    models: tuple[NamedModel, ...]  # the last one is the model
    task: Task
    output: Path  # of the result lines


def evaluate(asked: Sequence[Asked], options: OpeningOptions) -> None:
    """Measures one model on yardsticks, its checkpoint read once, and writes the lines of results."""
    from ..evaluation.yardstick import evaluate as measure

    alone = [each for each in asked if len(each.models) == 1]
    single = measure(alone[0].models, [each.task for each in alone], options) if alone else ()
    found = [(each, [measured]) for each, measured in zip(alone, single, strict=True)]
    found += [(each, list(measure(each.models, [each.task], options))) for each in asked if len(each.models) > 1]
    for each, measured in found:
        with replacing_text(each.output) as stream:
            stream.writelines(result.line for one in measured for result in one.results())


def finetune(options: FinetuneOptions) -> None:
    from ..finetuning.run import finetune_all

    finetune_all(options)


def attack(attacked: Attack, name: str, trained: Path, *, model: str, seed: int, results: Path, cpu: bool) -> None:
    """Answers the questions of an attack with a fine-tuned model, and scores the answers.

    The scores are added to ``results``; the answers go into its folder.
    """
    from ..finetuning.run import predict
    from ..results.result import append_result
    from ..robustness.measure import measure_files

    answers, original = results.with_name(f"{name}.json"), results.with_name(f"{name}-original.json")
    for data, output in ((attacked.data, answers), (attacked.original, original)):
        if data is not None:
            predict(PredictOptions(checkpoint=trained, file=data, output=output, cpu=cpu))
    if attacked.pairs is None:
        measured = measure_files(attacked.data, answers, name=name)
    else:
        measured = measure_files(attacked.pairs, original, answers, name=name)
    append_result(results, measured.result(model, seed))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
