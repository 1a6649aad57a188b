"""Signals through the real fairseq-train: the run continues bit for bit. And the memory that it shares with readers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from support.cli_runs import EVERYTHING, TORCHRUN, hydra, logged, run_on_two_workers, start_and_wait, training
from support.commands import killed_on_error, run_command, start_command, truneg, wait_until
from support.kills import differences, left_behind, state_of

from truneg_fairseq.fairseq_runs.stopping import EXIT_STOPPED

STOCK = ("--criterion", "masked_lm", "--disable-validation")
EPOCH = 21  # updates of an epoch
ENDLESS = ("--max-update", 1_000_000)


def stop(
    command: list[object], log: Path, when: str = '"num_updates": "3"', number: signal.Signals = signal.SIGTERM
) -> int:
    """The exit code of a training that gets a signal when its log has a text."""
    process = start_and_wait(command, log, when)
    process.send_signal(number)
    return process.wait(60)


def updates_at_stop(log) -> int:
    found = re.search(r"stopped by \w+ after update ([\d,]+), saved; the same command continues", log.read_text())
    assert found, log.read_text()[-2000:]
    return int(found[1].replace(",", ""))


SIGNAL_AT = """
import os, signal, sys, fairseq.trainer as f
sys.argv[:1], step, at = [], "{step}", {at}
stock = getattr(f.Trainer, step)
def signalled(self, *arguments, **options):
    logs = stock(self, *arguments, **options)
    if self.get_num_updates() == at:
        os.kill(os.getpid(), signal.SIGTERM)
    return logs
setattr(f.Trainer, step, signalled)
from fairseq_cli.train import cli_main
cli_main()
"""


@pytest.mark.parametrize(
    "stops",
    [
        pytest.param(
            [("train_step", 3), ("train_step", 8), ("valid_step", 8)], id="before a line, before a validation, in it"
        ),
        pytest.param(
            # a line of the log is due; nothing is; a validation; in the validation; the end of an epoch; of the run
            [("train_step", at) for at in (3, 5, 8)]
            + [("valid_step", 8), ("train_step", EPOCH), ("valid_step", EPOCH), ("train_step", 23), ("valid_step", 26)],
            id="at each kind of moment",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_that_signals_have_stopped_leaves_what_an_undisturbed_one_leaves(stops, data_bin, tmp_path):
    """Checkpoints, validations and lines of metrics: what was due when the signal came is done at the next start."""
    options = ("--criterion", "masked_lm_true_neg", "--save-interval-updates", 4, "--log-interval", 3, "--lr", 0.05)
    options += ("--keep-interval-updates-pattern", 8, "--max-update", 26, "--num-workers", int(len(stops) > 2))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [each for each in training(data_bin, broken, *options) if each != "--no-epoch-checkpoints"]
    for step, at in stops:
        program = [sys.executable, "-c", SIGNAL_AT.format(step=step, at=at), "train", *command[3:]]
        log = tmp_path / f"{step}-{at}"
        process = start_command(program, log, log)
        assert process.wait(120) == EXIT_STOPPED, log.read_text()[-3000:]
        assert updates_at_stop(log) == at
    run_command(command)
    run_command([whole if each == broken else each for each in command])
    found, expected = left_behind(broken), left_behind(whole)
    assert found["lines"] == expected["lines"]
    validated = {line["num_updates"] for line in found["lines"] if line["kind"] == "valid"}
    assert validated == {*range(4, 26, 4), EPOCH, 26}
    assert found.keys() == expected.keys() and len(found) > 8
    assert differences(found, expected) == []


def blocks_signals(pid: int) -> bool:
    found = re.search(r"SigBlk:\t(\w+)", Path(f"/proc/{pid}/status").read_text())
    return found is not None and bool(int(found[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_a_signal_before_the_first_update_ends_with_the_same_status(data_bin, tmp_path):
    slow = (
        "import sys, time, fairseq.tasks as t; sys.argv[:2] = ['fairseq-train']\n"
        "t.setup_task = lambda *_, **__: (print('setting up', flush=True), time.sleep(60))\n"
        "from fairseq_cli.train import cli_main; cli_main()"
    )
    log, command = tmp_path / "log", training(data_bin, tmp_path / "run", *STOCK, *ENDLESS)
    assert stop([sys.executable, "-c", slow, "train", *command[3:]], log, "setting up", signal.SIGUSR1) == EXIT_STOPPED
    assert "stopped by SIGUSR1 before the first update; nothing to save, the same command" in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_truneg_train_waits_with_a_signal_until_it_can_handle_it(data_bin, tmp_path):
    log, command = tmp_path / "log", training(data_bin, tmp_path / "run", *STOCK, *ENDLESS)
    process = start_command(truneg("train", *command[3:]), log, log, fresh=True)
    wait_until(lambda: blocks_signals(process.pid))
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == EXIT_STOPPED, log.read_text()
    assert "stopped by SIGTERM before the first update" in log.read_text()


def test_other_programs_keep_their_signals():
    program = (
        "import signal, fairseq, truneg_fairseq  # not fairseq_cli.train\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL"
    )
    run_command([sys.executable, "-c", program])


def test_a_program_that_goes_on_after_a_training_gets_its_signals_again(data_bin, tmp_path):
    """The first SIGTERM after it ends the program, as before it."""
    command = training(data_bin, tmp_path / "run", *STOCK, "--max-update", 1)
    program = (
        "import os, signal, sys; sys.argv[:2] = ['fairseq-train']\nfrom fairseq_cli.train import cli_main\n"
        "cli_main(); assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL; os.kill(os.getpid(), signal.SIGTERM)\n"
        "print('went on')"
    )
    result = run_command([sys.executable, "-c", program, "train", *command[3:]], check=False)
    assert result.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM) and "went on" not in result.stdout


def test_a_run_that_starts_elsewhere_does_not_promise_to_continue(data_bin, tmp_path):
    run_command(training(data_bin, tmp_path / "first", *STOCK, "--max-update", 2))
    log, folder = tmp_path / "log", tmp_path / "run"
    command = training(data_bin, folder, *STOCK, *ENDLESS, "--restore-file", tmp_path / "first" / "checkpoint_last.pt")
    assert stop(command, log, '"num_updates": "4"') == 1
    assert "saved; the same command would start anew, because of --restore-file (exit code 1)" in log.read_text()
    again = run_command([*command, "--max-update", 3])
    assert (
        f"{folder}/checkpoint_last.pt will be overwritten; to continue from that, leave --restore-file" in again.stdout
    )


def test_a_second_signal_ends_at_once(data_bin, tmp_path):
    """The first one waits for an update that takes long: of 4,000 batches."""
    command = training(data_bin, tmp_path / "run", *STOCK, *ENDLESS, "--update-freq", 100_000, "--max-epoch", 1000)
    log = tmp_path / "log"
    slow = "import fairseq_cli.train as t, time, fairseq.trainer as f; " + (
        "stock = f.Trainer.train_step; f.Trainer.train_step = lambda *a, **k: (print('in step', flush=True), "
        "[time.sleep(0.1) for _ in range(600)], stock(*a, **k))[-1]; import sys; sys.argv[:1] = []; t.cli_main()"
    )
    process = start_and_wait([sys.executable, "-c", slow, "train", *command[3:]], log, "in step")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # the same request, sent twice on its way
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
    assert not (tmp_path / "run" / "checkpoint_last.pt").exists()


def test_an_interrupt_in_the_foreground_ends_without_a_traceback(data_bin, tmp_path):
    log = tmp_path / "log"
    assert stop(training(data_bin, tmp_path / "run", *STOCK, *ENDLESS), log, number=signal.SIGINT) == 130
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_an_ended_run_that_is_started_again_stays_as_it_is(data_bin, tmp_path):
    """In the middle and at the end of an epoch, with a reader of data; each time it is prolonged."""
    options = ("--criterion", "masked_lm", "--num-workers", 1, "--data-buffer-size", 5, "--update-freq", 3)
    once, twice = tmp_path / "once", tmp_path / "twice"
    for updates, epoch in ((4, 1), (7, 2)):
        command = training(data_bin, twice, *options, "--max-update", updates)
        run_command(command)
        ended = state_of(twice)
        assert ended["iterator"]["epoch"] == epoch
        again = run_command(command)
        assert f"update {updates} of --max-update {updates}: has ended before" in again.stdout
        assert not logged(again.stdout, "train_inner")
        assert len(logged(again.stdout, "valid")) == 1
        assert differences(state_of(twice), ended) == []
    for folder in (once, twice):
        run_command(training(data_bin, folder, *options, "--max-update", 9))
    assert differences(state_of(twice), state_of(once)) == []


@pytest.mark.slow
@pytest.mark.parametrize("to", ["torchrun", "all, with readers, before the first update"])
def test_two_workers_stop_after_the_same_update(to, data_bin, tmp_path):
    log = tmp_path / "log"
    readers = ("--num-workers", int("readers" in to))
    command = training(data_bin, tmp_path / "run", *EVERYTHING, "--disable-validation", *ENDLESS, *readers)
    if to == "torchrun":
        process = start_and_wait([*TORCHRUN, *command[1:]], log)
        process.send_signal(signal.SIGTERM)
    else:
        process = start_and_wait([*TORCHRUN, *command[1:]], log, "criterion:", fresh=True)
        for pid in descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)
    everyone = descendants(process.pid)
    assert process.wait(90) != 0  # torchrun has a code of its own
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in everyone))
    stopped = updates_at_stop(log)
    resumed = run_on_two_workers([*command, "--max-update", stopped + 2], tmp_path)
    assert f"@ {stopped} updates" in resumed
    assert len(logged(resumed, "train_inner")) == 3  # with that of the update that the signal came in


def descendants(pid: int) -> list[str]:
    """A process and all below it."""
    return [str(pid), *(each for child in children(pid) for each in descendants(int(child)))]


def children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return []


@pytest.mark.slow
def test_a_signal_to_one_worker_stops_both(data_bin, tmp_path):
    """In a sum that they form anyway the workers tell each other of it."""
    launch = ("--distributed-world-size", 2, "--distributed-no-spawn", "--distributed-init-method")
    command = training(data_bin, tmp_path / "run", *STOCK, *ENDLESS, *launch, f"file://{tmp_path}/meeting")
    logs = [tmp_path / f"{rank}.log" for rank in range(2)]
    processes = [start_command([*command, "--distributed-rank", rank], log, log) for rank, log in enumerate(logs)]
    with killed_on_error(processes[0]), killed_on_error(processes[1]):
        wait_until(lambda: '"num_updates": "3"' in logs[0].read_text())
        processes[1].send_signal(signal.SIGUSR1)
        assert [process.wait(60) for process in processes] == [EXIT_STOPPED] * 2


def test_hydra_stops_too(data_bin, tmp_path):
    log = tmp_path / "log"
    overrides = "dataset.disable_validation=true optimization.max_update=1000000 checkpoint.no_last_checkpoints=true"
    command = hydra(data_bin, tmp_path, "sr_word", *overrides.split())
    assert stop(command, log, number=signal.SIGUSR2) == EXIT_STOPPED
    assert (tmp_path / "checkpoint_last.pt").exists()


@pytest.mark.slow
def test_no_process_is_left(data_bin, tmp_path):
    """The processes that read data end with the run, although the scheduler's signal reaches them too."""
    log = tmp_path / "log"
    command = training(data_bin, tmp_path / "run", *STOCK, *ENDLESS, "--num-workers", 2, "--data-buffer-size", 5)
    grouped = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"
    process = start_and_wait([sys.executable, "-c", grouped, *command], log, fresh=True)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == EXIT_STOPPED, log.read_text()[-2000:]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("a process is left")


def private_memory(pid: int) -> float:
    """MiB that no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_collecting_garbage_copies_nothing(data_bin, tmp_path):
    """Python does it hours after the start; here a signal makes the training and each reader do it."""
    code = (
        "import gc, signal, sys; sys.argv[:1] = []\n"
        "signal.signal(signal.SIGUSR2, lambda *_: print('collected', gc.collect(), flush=True))\n"
        "from fairseq_cli.train import cli_main; cli_main()"
    )
    log, command = tmp_path / "log", training(data_bin, tmp_path / "run", *STOCK, "--num-workers", 1, *ENDLESS)
    process = start_and_wait(
        [sys.executable, "-c", code, "train", *command[3:]], log, '"num_updates": "30"', fresh=True
    )
    readers = list(map(int, children(process.pid)))
    assert readers
    try:
        for number, pid in enumerate((process.pid, *readers), start=1):
            before = private_memory(pid)
            os.kill(pid, signal.SIGUSR2)
            wait_until(lambda count=number: log.read_text().count("collected") >= count)
            # The updates in between take something; without the repair it is 100 MiB and more.
            assert private_memory(pid) - before < 50
    finally:
        process.kill()
        process.wait()
