"""Checkpoints through the real fairseq-train: whole or not there, checked, and continued from."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from support.cli_runs import (
    TORCHRUN,
    assert_one_line,
    content,
    hydra,
    largest_difference,
    logged,
    parameters,
    run_on_two_workers,
    start_and_wait,
    training,
)
from support.commands import PLUGIN, fairseq_train, run_command, truneg
from support.kills import OBJECTIVES, differences, kill_and_compare, state_of
from support.trainings import configuration
from support.translations import MODEL, write_translations
from support.translations import TRAINING as TRANSLATION

from truneg_fairseq import register
from truneg_fairseq.commands import data as commands
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.fairseq_runs import folder as records
from truneg_fairseq.fairseq_runs.folder import TRAINING, describe_changes, input_fingerprints, read_series
from truneg_fairseq.fairseq_runs.preflight import check
from truneg_fairseq.fairseq_runs.saving import checkpoints_in, choose_start, damage

STOCK = ("--criterion", "masked_lm", "--disable-validation", "--save-interval-updates", 2)


@pytest.fixture(scope="module")
def run_of_four(data_bin, tmp_path_factory) -> Path:
    """A run with checkpoint_1_2.pt, checkpoint_1_4.pt and checkpoint_last.pt."""
    folder = tmp_path_factory.mktemp("four")
    run_command(training(data_bin, folder, *STOCK, "--max-update", 4))
    assert {path.name for path in checkpoints_in(folder)} >= {"checkpoint_1_2.pt", "checkpoint_1_4.pt"}
    return folder


@pytest.fixture
def run(run_of_four, tmp_path) -> Path:
    return Path(shutil.copytree(run_of_four, tmp_path / "run"))


def flip_a_bit(path: Path) -> None:
    """In the middle of the largest tensor: what lies between the members of the archive is in no checksum."""
    with zipfile.ZipFile(path) as archive:
        tensors = [member for member in archive.infolist() if "/data/" in member.filename]
        largest = max(tensors, key=lambda member: member.file_size)
    content = bytearray(path.read_bytes())
    header = largest.header_offset
    name, extra = (int.from_bytes(content[header + at : header + at + 2], "little") for at in (26, 28))
    content[header + 30 + name + extra + largest.file_size // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


@pytest.mark.parametrize(("harm", "told"), [(flip_a_bit, "is damaged (wrong checksum"), (Path.unlink, "is missing")])
def test_a_start_continues_from_the_newest_whole_checkpoint(harm, told, run, data_bin):
    harm(run / "checkpoint_last.pt")
    flip_a_bit(run / "checkpoint_1_4.pt")
    result = run_command(training(data_bin, run, *STOCK, "--max-update", 5))
    line = next(line for line in result.stdout.splitlines() if "continuing from" in line)
    assert f"{run}/checkpoint_last.pt: {told}" in line
    assert line.endswith("continuing from checkpoint_1_2.pt, update 2")
    assert len(logged(result.stdout, "train_inner")) == 3
    assert damage(run / "checkpoint_last.pt") is None


def test_a_run_without_a_whole_checkpoint_is_refused(run, data_bin):
    for path in checkpoints_in(run):
        cut(path)
    result = run_command(training(data_bin, run, *STOCK, "--max-update", 5), check=False)
    assert_one_line(result, f"{run}: no checkpoint of this run is whole (checkpoint_last.pt cannot be read")


def test_the_model_to_finetune_is_not_taken_for_the_runs_own_checkpoint(run):
    """A file that fairseq did not name is not one either."""
    register()  # which lets torch read fairseq's classes
    for name in ("checkpoint_1_2.pt", "checkpoint_last.pt"):
        (run / name).unlink()
    (run / "checkpoint_1_4.pt").rename(run / "checkpoint_pretrained.pt")
    assert choose_start(run, other_than=[run / "checkpoint_pretrained.pt"]) == (None, None)
    (run / "checkpoint_pretrained.pt").rename(run / "checkpoint_best.pt")
    assert choose_start(run, other_than=[run / "checkpoint_best.pt"]) == (None, None)
    assert choose_start(run)[0] == run / "checkpoint_best.pt"


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_the_last_checkpoint(run, data_bin):
    """The system refuses what would make a file larger than the limit, as it does on a full disk."""
    before = (run / "checkpoint_last.pt").read_bytes()
    limit = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) // 2},) * 2); "
    start = [sys.executable, "-c", f"{limit}os.execv(sys.argv[1], sys.argv[1:])"]
    result = run_command([*start, *training(data_bin, run, *STOCK, "--max-update", 100)], check=False)
    assert_one_line(result, "cannot be written (File too large); free space there, or choose another folder")
    assert (run / "checkpoint_last.pt").read_bytes() == before
    assert not list(run.glob("*.part"))


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["hc_sr_word_sr_sent", "electra_sr_sent_relabel"])
def test_killed_again_and_again_a_run_ends_as_if_undisturbed(objective, data_bin, tmp_path):
    """The short form of tests/long/kills.py."""
    outcome = kill_and_compare(data_bin, tmp_path, OBJECTIVES[objective], kills=3, seed=4)
    assert outcome.kills == 3
    assert outcome.differences == []


@pytest.mark.parametrize("task", ["translation", "language_modeling"])
def test_a_resume_in_the_second_epoch_has_the_same_batches(task, data_bin, tmp_path):
    """fairseq forms other batches after a resume than those that an unbroken run keeps from its first epoch."""
    if task == "translation":
        data, flags, updates = write_translations(tmp_path / "data"), [*MODEL, *TRANSLATION], (8, 10)
    else:
        sizes = "--arch transformer_lm --decoder-layers 1 --decoder-embed-dim 16 --decoder-ffn-embed-dim 16".split()
        sizes += "--decoder-attention-heads 2 --tokens-per-sample 24 --sample-break-mode eos --max-tokens 200".split()
        data, flags, updates = data_bin, [*sizes, "--optimizer", "adam", "--lr", 0.01, "--cpu"], (12, 15)
    command = fairseq_train(data, "--user-dir", PLUGIN, "--task", task, *flags, "--disable-validation")
    for folder, last in (("whole", updates[1]), ("broken", updates[0]), ("broken", updates[1])):
        run_command([*command, "--save-dir", tmp_path / folder, "--max-update", last])
    whole, broken = (tmp_path / name for name in ("whole", "broken"))
    assert state_of(whole)["iterator"]["epoch"] > 1
    assert differences(state_of(whole), state_of(broken)) == []


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(data_bin, tmp_path):
    """Whatever the hash seed and the number of processes that read data, and again with two workers."""
    options = ("--criterion", "masked_lm_sr_word", "--disable-validation", "--max-epoch", 2, "--batch-size", 16)

    def command(name: str, *flags: object) -> list[object]:
        return training(data_bin, tmp_path / name, *options, *flags)

    run_command(command("one"))
    run_on_two_workers(command("two"), tmp_path)
    fixed = {"PYTHONHASHSEED": "2"}  # that of the others was drawn when their interpreter started
    run_command(command("one again", "--num-workers", 2), env=fixed)
    again = command("two again", "--num-workers", 1)
    run_command([*TORCHRUN, *again[1:]], env=fixed)
    for name in ("one", "two"):
        ends = [parameters(tmp_path / run / "checkpoint_last.pt") for run in (name, f"{name} again")]
        assert largest_difference(*ends) == 0


@pytest.mark.slow
def test_two_trainings_in_one_folder_are_refused(data_bin, tmp_path):
    options = ("--criterion", "masked_lm", "--disable-validation")
    command = training(data_bin, tmp_path / "run", *options, "--max-update", 10**6)
    first = start_and_wait(command, tmp_path / "log", fresh=True)
    try:
        second = run_command(command, check=False)
        assert_one_line(second, f"--save-dir {tmp_path}/run: process {first.pid} on ")
    finally:
        first.kill()
        first.wait()
    again = training(data_bin, tmp_path / "run", *options, "--max-update", 1)
    run_command(again)  # a killed run's lock is gone


def test_a_run_measures_into_its_folder(data_bin, tmp_path):
    """Whatever is printed. What lies behind the checkpoint that a run continues from is measured again, not doubled."""
    options = ("--criterion", "masked_lm", "--log-format", "none", "--log-interval", 2, "--save-interval-updates", 3)
    run_command(training(data_bin, tmp_path, *options, "--max-update", 3))
    file = tmp_path / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["kind"], line["subset"], line["num_updates"]) for line in lines] == [
        *(("train", None, 2), ("valid", "valid", 3), ("epoch", None, 3))
    ]
    assert all(line["epoch"] == 1 and line["values"]["loss"] > 0 and line["time"] for line in lines)
    with file.open("ab") as stream:  # after the checkpoint, then a kill
        stream.write(json.dumps({**lines[0], "num_updates": 4}).encode() + b'\n\0\0\n{"kind": "tr\xff')
    run_command(training(data_bin, tmp_path, *options, "--max-update", 4))
    series = read_series(tmp_path)
    assert list(series[TRAINING, "loss"]) == [2, 4]
    assert list(series["valid", "ppl"]) == [3, 4]
    assert len(file.read_text().splitlines()) == 6


def test_what_is_no_number_is_not_measured(tmp_path, monkeypatch):
    """The criterion of fairseq's GLUE recipes logs its predictions as a list beside their correlation."""
    register()
    from fairseq.logging import meters, progress_bar

    from truneg_fairseq.fairseq_runs.fairseq_trainer import PluginTrainer

    monkeypatch.setattr(PluginTrainer, "measured", tmp_path)
    bar = progress_bar.progress_bar([], log_format="none", prefix="valid on 'valid' subset")
    bar.print({"pred": meters.ConcatTensorMeter().smoothed_value, "mcc": 0.5, "num_updates": 3}, tag="valid", step=3)
    assert dict(read_series(tmp_path)) == {("valid", "mcc"): {3: 0.5}}


def test_the_manifest_tells_what_a_run_was_made_with(data_bin, tmp_path):
    """Each option that changes the result is a line, also in the log; not --max-update, as a run may go on."""
    data = shutil.copytree(data_bin, tmp_path / "data")
    options = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece", "--disable-validation")
    run_command(training(data, tmp_path / "run", *options, "--max-update", 1))
    record = tmp_path / "run" / "manifest.json"
    (start,) = json.loads(record.read_text())["starts"]
    assert start["versions"]["torch"] == importlib.metadata.version("torch")
    assert start["command"].endswith("--max-update 1")
    assert (start["task"], start["model"], start["criterion"]) == ("masked_lm", "roberta_base", "masked_lm_hc")
    assert {Path(path).name for path in start["inputs"]} >= {"dict.txt", "train.bin", "train.idx", "valid.bin"}
    assert len(start["synonym_table"]) == 64
    assert {"seed": 1, "hc_weight": 1.0, "max_update": 1, "arch": "roberta_base"}.items() <= start["settings"].items()
    assert start["synonym_source"] == "wordnet"
    (data / "valid.bin").write_bytes((data / "valid.bin").read_bytes()[::-1])
    others = ("--lr", 0.005, "--hc-weight", 0.5, "--mask-prob", 0.2, "--batch-size", 5)
    again = run_command(training(data, tmp_path / "run", *options, *others, "--max-update", 2))
    _, changed = json.loads(record.read_text())["starts"]
    assert sorted(line.split(" since ")[0] for line in changed["changes"]) == [
        *("--hc-weight changed from 1.0 to 0.5", "--lr changed from [0.01] to [0.005]"),
        "--mask-prob changed from 0.3 to 0.2",
        "the batch size changed (batch_size 4 -> 5): some samples of this epoch may be repeated or skipped",
        f"the data differ from the start of {start['time']} (valid.bin)",
    ]
    assert all(line in again.stdout for line in changed["changes"])


def test_other_data_are_reported_and_moved_data_are_not(tmp_path):
    for folder, text in (("a", "one"), ("moved", "one"), ("b", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.bin").write_text(text)
        (tmp_path / folder / "train.npz").touch()  # SQuAD's
    same = {"time": "noon", "synonym_table": None, "settings": {}, "ideas": {}}
    before, moved, other = ({**same, "inputs": input_fingerprints([tmp_path / name])} for name in ("a", "moved", "b"))
    assert len(before["inputs"]) == 2
    assert describe_changes(before, moved) == []
    assert describe_changes(before, other) == ["the data differ from the start of noon (train.bin)"]


def test_a_checkpoint_that_is_a_link_leaves_what_it_names(run, data_bin, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "checkpoint_last.pt").symlink_to(run / "checkpoint_last.pt")
    before = (run / "checkpoint_last.pt").read_bytes()
    run_command(training(data_bin, other, "--criterion", "masked_lm", "--disable-validation", "--max-update", 5))
    assert (run / "checkpoint_last.pt").read_bytes() == before
    assert state_of(other)["iterator"]["iterations_in_epoch"] == 5


def test_doctor_finds_nothing_wrong_with_a_good_installation(wordnet):
    result = run_command(truneg("doctor"), check=False)
    assert result.returncode == 0, result.stdout
    assert "WRONG" not in result.stdout


def test_doctor_finds_nothing_wrong_without_fairseq(wordnet, monkeypatch):
    found = records.versions()
    monkeypatch.setattr(records, "versions", lambda: found | dict.fromkeys(commands._WITH_FAIRSEQ))
    findings = list(commands.check_installation())
    assert all(is_good for is_good, _ in findings), findings
    assert sum("not installed: needed for training with fairseq" in text for _, text in findings) == 3
    monkeypatch.setattr(records, "versions", lambda: found | {"nltk": None, "omegaconf": None})
    wrong = [text for is_good, text in commands.check_installation() if not is_good]
    assert wrong == ["omegaconf is not installed: pip install omegaconf", "nltk is not installed: pip install nltk"]


def test_stock_fairseq_reads_the_checkpoints(run, data_bin):
    """The format is torch's own: a program without the package continues from them."""
    program = (
        "import argparse, sys, torch; torch.serialization.add_safe_globals([argparse.Namespace])\n"
        "sys.argv[:1] = []\nfrom fairseq_cli.train import cli_main; cli_main()\n"
        "assert 'truneg_fairseq' not in sys.modules"
    )
    command = training(data_bin, run, *STOCK, "--max-update", 5)
    place = command.index("--user-dir")
    del command[place : place + 2]
    result = run_command([sys.executable, "-c", program, "train", *command[3:]])
    assert "@ 4 updates" in result.stdout


@pytest.mark.slow
def test_the_runs_of_one_process_have_their_own_best(data_bin, tmp_path):
    lrs = "optimization.lr=[0.01],[0.000001]"
    folder = f"checkpoint.save_dir={tmp_path}/${{optimization.lr.0}}"
    run_command([*hydra(data_bin, tmp_path, "sr_word", "optimization.max_update=3", lrs, folder), "--multirun"])
    for lr in ("0.01", "1e-06"):
        assert (tmp_path / lr / "checkpoint_best.pt").exists(), lr


# Weights of one dictionary never go on over another dictionary of the same size.


def turned(data: Path, folder: Path, *names: str) -> Path:
    """The data with the lines of its dictionaries in another order."""
    shutil.copytree(data, folder)
    for name in names or ("dict.txt",):
        lines = (data / name).read_text().splitlines()
        (folder / name).write_text("\n".join(lines[::-1]) + "\n")
    return folder


@pytest.fixture(scope="module")
def other(binarized, tmp_path_factory) -> Path:
    return turned(binarized, tmp_path_factory.mktemp("other") / "data-bin")


@pytest.mark.parametrize("flag", ["--finetune-from-model", "--restore-file", "--continue-once", "--save-dir"])
def test_a_training_with_another_dictionary_is_refused(flag, run_of_four, other, tmp_path):
    if flag == "--save-dir":
        shutil.copytree(run_of_four, tmp_path / "run")
    given = () if flag == "--save-dir" else (flag, run_of_four / "checkpoint_last.pt")
    result = run_command(training(other, tmp_path / "run", *STOCK, *given, "--max-update", 5), check=False)
    assert_one_line(result, "was trained with another vocabulary (fingerprint ")
    assert f"than that of {other} (" in result.stderr


def test_a_checkpoint_that_does_not_tell_its_dictionary_is_accepted(run_of_four, other, tmp_path):
    state = content(run_of_four / "checkpoint_last.pt")
    told = state["extra_state"].pop("vocabulary")
    torch.save(state, tmp_path / "stock.pt")
    run_command(training(other, tmp_path, *STOCK, "--finetune-from-model", tmp_path / "stock.pt", "--max-update", 1))
    assert content(tmp_path / "checkpoint_last.pt")["extra_state"]["vocabulary"] != told


def test_parts_of_the_data_have_one_dictionary(binarized, other):
    with pytest.raises(TrueNegError, match=f"{other}: has another dictionary than {binarized}; binarize all parts"):
        check(configuration(f"{binarized}:{other}", *STOCK))


def test_the_second_dictionary_of_a_translation(tmp_path):
    data = write_translations(tmp_path / "data")
    other = turned(data, tmp_path / "other", "dict.en.txt")
    command = ("--task", "translation", *MODEL, *TRANSLATION, "--disable-validation", "--max-update", 1)
    run_command(fairseq_train(data, "--user-dir", PLUGIN, *command, "--save-dir", tmp_path / "run"))
    again = fairseq_train(other, "--user-dir", PLUGIN, *command, "--save-dir", tmp_path / "run", "--max-update", 2)
    assert_one_line(run_command(again, check=False), "with another target vocabulary")
