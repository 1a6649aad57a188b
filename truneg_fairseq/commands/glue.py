"""Fine-tune a checkpoint on GLUE's tasks with several seeds, and score it."""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TrueNegError
from ..glue.files import TASKS

if TYPE_CHECKING:
    from ..comparison.results import Result
    from ..convert.checkpoints import Checkpoint
    from ..glue.runs import Model, Options, Run

RESULTS_NAME = "results.jsonl"
_OVERRIDES = ("lr", "epochs", "batch_size", "weight_decay", "layer_lr_decay", "max_length")
_NAMES = {name.lower(): name for name in TASKS} | {name.lower().replace("-", "_"): name for name in TASKS}
_ROBERTA_SEPARATOR = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the data, the tasks, the seeds and the recipe."""
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="PT", help="the pre-trained model")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="GLUE-DIR",
        help="a folder for each task, by 'truneg data prepare-glue'",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help=f"gets {RESULTS_NAME}, logs, submissions; continued"
    )
    parser.add_argument("--tasks", nargs="+", default=["all"], metavar="TASK", help=f"{', '.join(TASKS)} or all (all)")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="fine-tune with seeds 1 to N (default: 5)")
    parser.add_argument("--model", metavar="NAME", help="in the results (default: the checkpoint's, or its folder's)")
    parser.add_argument(
        "--recipe", choices=("electra", "roberta"), default="electra", help="hyper-parameters (default: electra)"
    )
    for name, kind, what in (
        ("lr", float, "learning rate"),
        ("epochs", int, "epochs"),
        ("batch-size", int, "examples an update"),
        ("weight-decay", float, "weight decay"),
        ("layer-lr-decay", float, "factor of the learning rate from layer to layer"),
        ("max-length", int, "tokens of an example"),
    ):
        parser.add_argument(f"--{name}", type=kind, metavar="N", help=f"{what} (default: the recipe's)")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help="default: fp32")
    parser.add_argument("--cpu", action="store_true", help="keep off the GPU")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="of data parallelism (default: 1)")
    parser.add_argument("--num-workers", type=int, default=1, metavar="N", help="processes that load data (default: 1)")
    parser.add_argument("--predict-test", action="store_true", help="write the test sets' predictions to submit")
    parser.add_argument("--keep-models", action="store_true", help="keep the fine-tuned models, as model.pt")


def run(args: argparse.Namespace) -> None:
    """Runs what is not finished, task by task, and prints each task's metrics over the seeds.

    Raises:
        TrueNegError: before any training, for data, checkpoint or options that do not fit; and at the end, where runs
            have diverged.
    """
    _check(args)
    signal.signal(signal.SIGTERM, _end)  # so that the run at work ends too
    runs = _plan(args)
    path = args.output / RESULTS_NAME
    finished = _finished(path, runs)
    diverged = _execute(runs, finished, path)
    print(_table(finished))
    print(f"results: {path} (truneg compare reads it)")
    if diverged:
        raise TrueNegError(diverged[0] if len(diverged) == 1 else f"{len(diverged)} runs diverged: {diverged[0]}")


def _end(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _check(args: argparse.Namespace) -> None:
    for name in ("seeds", "workers"):
        if getattr(args, name) < 1:
            raise TrueNegError(f"--{name} {getattr(args, name)}: expected 1 or more")
    if args.num_workers < 0:
        raise TrueNegError(f"--num-workers {args.num_workers}: expected 0 or more")
    if not args.data.is_dir():
        raise TrueNegError(f"--data {args.data}: no such folder; expected one with a folder for each task")
    if args.output.exists() and not args.output.is_dir():
        raise TrueNegError(f"--output {args.output}: is no folder; choose another")


def task_names(words: Sequence[str]) -> list[str]:
    """GLUE's names of tasks, in the order of the paper's tables.

    Args:
        words: names in any case, "-" or "_" between their parts; "all" for all.

    Raises:
        TrueNegError: another word.
    """
    if [word.lower() for word in words] == ["all"]:
        return list(TASKS)
    unknown = [word for word in words if word.lower() not in _NAMES]
    if unknown:
        raise TrueNegError(f"--tasks: found {unknown[0]!r}, expected some of {', '.join(TASKS)}, or all")
    chosen = {_NAMES[word.lower()] for word in words}
    return [name for name in TASKS if name in chosen]


def _plan(args: argparse.Namespace) -> list[Run]:
    """All runs, checked."""
    from ..finetuning import run as fairseq_run
    from ..glue.runs import Options, Run, check_data, check_vocabulary

    names = task_names(args.tasks)
    infos = {name: check_data(TASKS[name], args.data / name) for name in names}
    fairseq_run.check_precision(args.precision, cpu=args.cpu)
    fairseq_run.start_fairseq()
    from ..convert.checkpoints import read_checkpoint
    from ..glue.recipes import make_recipe

    checkpoint = read_checkpoint(args.checkpoint)
    model, width = _model(args, checkpoint)
    overrides = {name: getattr(args, name) for name in _OVERRIDES}
    options = Options(
        output=args.output,
        precision=args.precision,
        workers=args.workers,
        cpu=args.cpu,
        num_workers=args.num_workers,
        predict_test=args.predict_test,
        keep_models=args.keep_models,
    )
    runs = []
    for name, info in infos.items():
        check_vocabulary(checkpoint, info, args.data / name)
        _check_test(name, info, options)
        examples = info["splits"]["train"]["examples"]
        recipe = make_recipe(args.recipe, name, width=width, positions=model.positions, examples=examples, **overrides)
        if recipe.batch_size % options.workers:
            raise TrueNegError(f"--workers {options.workers}: expected a divisor of the batch size {recipe.batch_size}")
        runs += [Run(model, TASKS[name], args.data / name, seed, recipe, options) for seed in range(1, args.seeds + 1)]
    return runs


def _check_test(name: str, info: dict[str, Any], options: Options) -> None:
    if options.predict_test and not any(split.startswith("test") for split in info["splits"]):
        raise TrueNegError(f"--predict-test: {name} was prepared without its test set; prepare it again with test.tsv")


def _model(args: argparse.Namespace, checkpoint: Checkpoint) -> tuple[Model, int]:
    """The model and the width of its encoder."""
    from ..convert.config import architecture_flags, config_of_arguments
    from ..files import file_digest
    from ..glue.runs import Model
    from ..squad.train import default_name

    weight = checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    if weight is None:
        raise TrueNegError(f"{checkpoint.path}: has no encoder; expected a bert, electra or roberta model")
    config = config_of_arguments(checkpoint.model, len(weight), checkpoint.path)
    is_roberta = config.family.name == "roberta"
    if is_roberta and args.recipe == "electra":
        raise TrueNegError(
            f"{checkpoint.path}: is fairseq's roberta, whose layers cannot have learning rates of their own; add "
            "--recipe roberta"
        )
    name = args.model or default_name(args.checkpoint)
    if not name or "/" in name:
        raise TrueNegError(f"--model {name!r}: expected a name without '/'")
    digest = file_digest(args.checkpoint)
    separator = _ROBERTA_SEPARATOR if is_roberta else None
    flags = architecture_flags(config)
    return Model(name, args.checkpoint, digest, flags, separator, config.positions), config.hidden_size


def _finished(path: Path, runs: Sequence[Run]) -> dict[tuple[str, str, int], Result]:
    """The results of these runs that there are.

    Raises:
        TrueNegError: one was made with other settings.
    """
    from ..comparison.results import read_results

    known = {result.key: result for result in read_results([path])} if path.exists() else {}
    finished = {run.key: known[run.key] for run in runs if run.key in known}
    for run in runs:
        for name, value in run.settings.items() if run.key in finished else ():
            found = finished[run.key].settings.get(name)
            if found != value:
                raise TrueNegError(
                    f"{path}: has {run.name} of {run.model.name} with {name} {found}, expected {value}; give the same "
                    "options, another --model or another --output"
                )
    return finished


def _execute(runs: Sequence[Run], finished: dict[tuple[str, str, int], Result], path: Path) -> list[str]:
    """Adds what is missing to ``finished`` and the file; returns what is to be said of runs that diverged."""
    from ..comparison.results import append_result
    from ..glue.runs import Diverged
    from ..progress import Progress
    from ..squad.predict import quiet_fairseq

    quiet_fairseq()
    diverged = []
    with Progress(total=sum(run.recipe.updates for run in runs), unit=" updates", smoothing=0.05) as bar:
        done = 0
        for number, run in enumerate(runs, start=1):
            bar.set_description(f"{run.name} ({number} of {len(runs)})")
            if run.key in finished:
                run.complete()
            else:
                try:
                    result = run.execute(partial(_move, bar, done))
                except Diverged as error:
                    Progress.write(f"warning: {error}", file=sys.stderr)
                    diverged.append(str(error))
                else:
                    append_result(path, result)
                    run.tidy()
                    finished[run.key] = result
            done += run.recipe.updates
            _move(bar, done, 0)
    return diverged


def _move(bar: Any, done: int, updates: int) -> None:
    """Shows the updates of finished runs and of this one."""
    if done + updates > bar.n:
        bar.update(done + updates - bar.n)


def _table(finished: dict[tuple[str, str, int], Result]) -> str:
    """Mean and standard deviation of the metrics over the seeds, in percent."""
    lines = [f"{'task':8}{'metric':22}{'mean':>8}{'sd':>8}{'seeds':>7}"]
    for task in TASKS:
        results = [result for result in finished.values() if result.task == task]
        for metric in results[0].metrics if results else ():
            values = [100 * result.metrics[metric] for result in results]
            deviation = f"{statistics.stdev(values):8.2f}" if len(values) > 1 else f"{'-':>8}"
            lines.append(f"{task:8}{metric:22}{statistics.fmean(values):8.2f}{deviation}{len(values):7}")
    return "\n".join(lines)
