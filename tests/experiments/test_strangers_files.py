"""A stranger's experiment file: whatever an option's value is, nothing runs, is written or is read beside the run."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from msgspec import structs
from support.convert_models import TOKENS, write_dictionary

import truneg_fairseq
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.experiments import ExperimentOptions
from truneg_fairseq.experiments.allowed_options import check_flags
from truneg_fairseq.experiments.run_experiment import Runner
from truneg_fairseq.experiments.settings import FILE_OPTIONS, Experiment, read_experiment
from truneg_fairseq.launch.training_run import check_words

truneg_fairseq.register()
FILE = {"model": {"arch": "truneg_bert_tiny"}, "updates": 1, "arms": {"a": {}}}
TRAINING = {"task": "masked_lm", "criterion": "masked_lm_true_neg", "optimizer": "adam", "lr-scheduler": "manual"}
MARK = "/the/mark"  # what a payload names; nothing may touch it
CODE = f"__import__('os').system('touch {MARK}')"
VALUES: tuple[Any, ...] = (
    *(CODE, f"({CODE}, 1)", f"[{CODE}]", f"[[{CODE}]]", f"{{'a': {CODE}}}", f"0.1 or {CODE}", f"lambda: {CODE}"),
    *([f"({CODE} or 0.9", "0.98)"], [f"0.9 or {CODE}", 1], ["f'{" + CODE + "}'"], ["(open", f"('{MARK}'))"]),
    *("os.environ['HOME']", "${oc.env:HOME}", f"x',common.user_dir='{MARK}", f"1\n--user-dir={MARK}", f"..{MARK}"),
)
"""Texts, lists, nested lists, numbers with a tail, hydra's references and quotes."""


def options_of(kind: Any) -> set[str]:
    """The options without dashes of a task, a model, a criterion .. of fairseq or of this package."""
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    if hasattr(kind, "add_args"):
        kind.add_args(parser)
    elif hasattr(kind, "__dataclass"):
        gen_parser_from_dataclass(parser, kind.__dataclass())
    return names_in(parser)


def names_in(parser: argparse.ArgumentParser) -> set[str]:
    return {flag[2:] for each in parser._actions for flag in each.option_strings if flag.startswith("--")}


def all_options() -> set[str]:
    kinds = [*TASK_REGISTRY.values(), *MODEL_REGISTRY.values()]
    kinds += [kind for registry in REGISTRIES.values() for kind in registry["registry"].values()]
    return names_in(fairseq_options.get_training_parser()).union(*map(options_of, kinds))


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stranger")
    write_dictionary(folder / "data", TOKENS)
    return folder / "file.yaml"


def read(file: Path, **training: Any) -> Experiment:
    """JSON is YAML."""
    content = {**FILE, "data": str(file.parent / "data"), "training": {**TRAINING, **training}}
    file.write_text(json.dumps(content), encoding="utf-8")
    return read_experiment(file)


def runner(file: Path, experiment: Experiment) -> Runner:
    return Runner(experiment, ExperimentOptions(cpu=True, output=file.parent / "out"))


def check(file: Path, experiment: Experiment) -> None:
    check_flags(file, experiment, runner(file, experiment).trainings)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Every event in this process that runs something, connects, or has to do with the mark."""
    events: list[str] = []
    on = True

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        runs = event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")
        if on and (runs or (event != "compile" and MARK in repr(arguments))):
            events.append(f"{event} {arguments}")

    sys.addaudithook(note)  # cannot be removed
    try:
        yield events
    finally:
        on = False


def test_no_option_of_fairseq_takes_a_value_that_runs_reads_or_writes_something(file):
    plain, names = read(file), all_options()
    assert len(names) > 500 and {"adam-betas", "post-save-script", "aim-repo", "wer-args", "teacher"} <= names
    run, taken = runner(file, plain).trainings["a"], []
    with watched() as events:
        for name in names.difference(FILE_OPTIONS):  # those are whole paths, which nothing evaluates
            for value in VALUES:
                changed = structs.replace(plain, training={**plain.training, name: value})
                with contextlib.suppress(TrueNegError):
                    taken.append((name, replace(run, experiment=changed).flags))
    assert not taken and not events


def test_text_is_taken_by_options_with_choices_numbers_or_names_of_data_alone(file):
    plain, parser = read(file), fairseq_options.get_training_parser()
    fairseq_options.parse_args_and_arch(parser, ["data", *(f"--{k}={v}" for k, v in TRAINING.items()), "--arch=bert"])
    taken = set()
    with watched() as events:
        for name in sorted(names_in(parser)):
            for value in (MARK, "7"):
                with contextlib.suppress(TrueNegError, SystemExit):
                    check(file, structs.replace(plain, training={**plain.training, name: value}))
                    taken.add(name)
    assert not events
    actions = {flag[2:]: each for each in parser._actions for flag in each.option_strings}
    texts = {name for name in taken if not (actions[name].choices or actions[name].type in (int, float))}
    ours = set(texts) & options_of(REGISTRIES["criterion"]["registry"]["masked_lm_true_neg"])
    assert {"post-save-script", "user-dir", "aim-repo", "wandb-project", "log-file", "plasma-path"} & taken == set()
    assert texts - ours == {
        *("lr", "update-freq", "adam-betas", "max-tokens-valid", "batch-size-valid"),
        *("train-subset", "shorten-data-split-list", "best-checkpoint-metric", "encoder-layers-to-keep"),
        "update-epoch-batch-itr",
    }


@pytest.mark.parametrize("value", [*VALUES, [["0.9", CODE]], {"a": CODE}, [[0.9], [0.98]]])
def test_values_of_a_file_and_of_set(file, value):
    with watched() as events:
        for name in ("adam-betas", "lr", "update-freq"):
            with pytest.raises(TrueNegError):
                check(file, read(file, **{name: value}))
            read(file)
            with pytest.raises(TrueNegError):
                check(file, read_experiment(file, [f"training.{name}={json.dumps(value)}"]))
    assert not events


PIECES = ["a", "1", *"()[],.'=:-/ ", "a(", "a[", "lambda:", " or "]


def test_what_is_taken_calls_nothing_when_it_is_evaluated():
    """All texts of up to four pieces; a whole path is no Python."""
    called, taken = [], 0

    class Trap:
        def __getattr__(self, name: str) -> Trap:
            return self

        def __call__(self, *arguments: object) -> Trap:
            called.append(text)
            return self

        __getitem__ = __iter__ = __call__

    class Names(dict[str, Any]):
        def __missing__(self, name: str) -> Trap:
            return Trap()

    for length in range(1, 5):
        for text in map("".join, itertools.product(PIECES, repeat=length)):
            with contextlib.suppress(TrueNegError):
                check_words([f"--x={text}"], "run")
                taken += 1
                with contextlib.suppress(Exception):
                    eval(text, {"__builtins__": {}}, Names())
    assert taken > 100 and not called
