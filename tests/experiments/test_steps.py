"""The process of an evaluation: its log, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs
from support import squad_examples
from support.commands import command_environment
from support.glue_files import write_model

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.experiments.evaluation import _finetuned, _finetuning_options
from truneg_fairseq.experiments.settings import Attack, Finetuning

CALLS = """
import sys
from functools import partial
from pathlib import Path
from truneg_fairseq.finetuning.task import read_info
from truneg_fairseq.launch.process import call_logged, read_tail, run_logged
folder = Path(sys.argv[1])
names = {"log": folder / "log", "poll": lambda: None}
assert call_logged([partial(read_info, folder=folder / "none")], device="7", **names) == 1
shell = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
assert run_logged(shell, folder=folder, device="7", **names | {"log": folder / "gpu"}) == 0
call_logged([partial(read_tail, path=folder / "fifo", size=1)], device=None, **names)
"""


def test_an_evaluation_is_logged_and_ends_with_the_command_that_was_killed(tmp_path):
    """By SIGKILL of the command alone, as the kernel kills where memory ends."""
    os.mkfifo(tmp_path / "fifo")
    with (
        subprocess.Popen([sys.executable, "-c", CALLS, str(tmp_path)], env=command_environment()) as parent,
        (tmp_path / "fifo").open("w"),  # waits until it is read
    ):
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        assert children
        parent.kill()
        deadline = time.monotonic() + 60
        while any(is_running(Path("/proc", number)) for number in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[1].startswith(f"truneg_fairseq: error: {tmp_path}/none/info.json: no such file")
    assert (tmp_path / "gpu").read_text() == "7\n"


def is_running(process: Path) -> bool:
    """A process that ended and that nobody asked for is a zombie."""
    return process.exists() and (process / "stat").read_text().split()[2] != "Z"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"epoch": 1}, r"evaluations.finetune.glue.options: has 'epoch'; expected only batch_size, "),
        ({"max-length": 4}, r"evaluations.finetune.glue.options: max_length 4: expected a number >= 8"),
        ({"lr": "high"}, r"evaluations.finetune.glue.options: lr: Expected float"),
    ],
)
def test_wrong_options_of_a_fine_tuning_are_named(options, line, tmp_path):
    run = SimpleNamespace(arm="hc", model_path=tmp_path / "model.pt", cpu=True)
    own = {"output": tmp_path, "tasks": ["RTE"], "seeds": [1]}
    asked = Finetuning(prepared=tmp_path, tasks=["RTE"], options={"epochs": 2, "weight-decay": None})
    assert _finetuning_options("glue", asked, run, dict(own)).epochs == 2
    with pytest.raises(TrueNegError, match=line):
        _finetuning_options("glue", structs.replace(asked, options=options), run, dict(own))


@pytest.mark.slow
def test_squad_is_fine_tuned_attacked_and_tidied(tmp_path):
    """The result lines of SQuAD and of the attack; the model goes when both are there."""
    data = squad_examples.write_data(tmp_path / "bin")
    prepared = squad_examples.prepare(tmp_path / "squad", data, 8, 4).parent
    model = write_model(tmp_path, data, max_position_embeddings=24)
    run = SimpleNamespace(arm="hc", seed=4, name="hc seed 4", model_path=model, cpu=True)
    attacked = tmp_path / "attacked.json"  # what stands behind a "-" is the name of a variant
    attacked.write_text((tmp_path / "squad/valid.json").read_text().replace("valid-", "valid_").replace("-0", ""))
    options, attacks = {"epochs": 1, "batch-size": 8}, {"AddOne": Attack(data=attacked)}
    asked = Finetuning(prepared=prepared, tasks=["SQuAD"], seeds=1, options=options, attacks=attacks)
    (found,) = _finetuned("squad", asked, run, tmp_path / "out")
    for call in found.calls:
        call()
    assert list((tmp_path / "out").rglob("model.pt"))
    found.tidy()
    assert not list((tmp_path / "out").rglob("*.pt"))
    assert {each.key for each in found.results()} == {("hc", "SQuAD", 4), ("hc", "AddOne", 4)}
