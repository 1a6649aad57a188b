"""What evaluations do, and the process of its own that each has: its memory and its GPU, its log, an end by signals.

The functions import what they need when they are called: a process sets up its log and its GPU first.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from ..errors import one_line_errors
from ..files import json_line, replacing_text
from ..finetuning.process import exit_on_signals
from ..glue.options import TrainGlueOptions
from ..inspection.options import InspectionOptions
from ..squad.options import PredictSquadOptions, TrainSquadOptions
from .settings import Attack

Step = Callable[[], None]

_CONTEXT = multiprocessing.get_context("spawn")
_POLL_SECONDS = 0.5
_PATIENCE = 120.0  # seconds that a fine-tuning has to save itself after a signal


def call_logged(steps: Sequence[Step], *, log: Path, poll: Callable[[], None], device: str | None) -> int:
    """Calls picklable functions in a fresh process, which ends with this function for any reason; gives its exit code.

    SIGTERM ends it, upon which a training saves itself; Ctrl-C kills it, as nobody who presses it wants to wait. What
    they print is added to ``log``; ``poll`` is called twice a second, and an error from it ends the process; ``device``
    is the GPU that it sees, None for all.
    """
    process = _CONTEXT.Process(target=_call, args=(steps, log, device))
    with exit_on_signals():
        process.start()
        try:
            while process.exitcode is None:
                process.join(_POLL_SECONDS)
                poll()
        except KeyboardInterrupt:
            process.kill()
            raise
        finally:
            try:
                process.terminate()
                process.join(_PATIENCE)
            finally:  # also where Ctrl-C is pressed again
                process.kill()
                process.join()
    return int(process.exitcode)


def _call(steps: Sequence[Step], log: Path, device: str | None) -> None:
    """In the new process."""
    os.setsid()  # Ctrl-C is for the command
    threading.Thread(target=_end_with_command, daemon=True).start()
    with log.open("ab") as stream:
        os.dup2(stream.fileno(), sys.stdout.fileno())
        os.dup2(stream.fileno(), sys.stderr.fileno())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    # Before fairseq is imported: its import would make the root logger print other packages' INFO and DEBUG lines.
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("truneg_fairseq").setLevel(logging.INFO)
    warnings.simplefilter("ignore")
    with one_line_errors():
        for step in steps:
            print(step)
            step()


def _end_with_command() -> None:
    """A killed command leaves no evaluation behind."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(os.getpgrp(), signal.SIGKILL)


def measure_held_out(options: InspectionOptions, output: Path) -> None:
    """Measures a masked LM on held-out text."""
    from .. import register

    register()
    from ..inspection.inspector import measure

    lines = [f"{json_line(each.record())}\n" for each in measure(options)]
    with replacing_text(output) as stream:
        stream.writelines(lines)


def finetune_on_glue(options: TrainGlueOptions) -> None:
    from ..glue.finetune import finetune_all

    finetune_all(options)


def finetune_on_squad(options: TrainSquadOptions) -> None:
    from ..squad.runs import finetune

    finetune(options)


def attack(attacked: Attack, name: str, trained: Path, *, model: str, seed: int, results: Path, cpu: bool) -> None:
    """Answers the questions of an attack with a fine-tuned model, and scores the answers.

    The scores are added to ``results``; the answers go into its folder.
    """
    from ..comparison.results import append_result
    from ..robustness.measure import measure_adversarial_files, measure_files
    from ..squad.runs import predict_file

    answers, original = results.with_name(f"{name}.json"), results.with_name(f"{name}-original.json")
    for data, output in ((attacked.data, answers), (attacked.original, original)):
        if data is not None:
            predict_file(PredictSquadOptions(checkpoint=trained, data=data, output=output, cpu=cpu))
    if attacked.pairs is None:
        measured = measure_adversarial_files(name, attacked.data, answers)
    else:
        measured = measure_files(attacked.pairs, original, answers, name=name)
    append_result(results, measured.result(model, seed))
