"""Training through the real commands: fairseq-train, fairseq-hydra-train, torchrun."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import (
    PLUGIN,
    REPOSITORY,
    TINY_MODEL,
    TINY_TRAINING,
    command_environment,
    fairseq_train,
    run_command,
    truneg,
)

RECIPES = REPOSITORY / "user_dir_examples" / "masked_lm"
NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)
# Every objective at once: hard correction, both regularizations and a temperature.
EVERYTHING = (
    *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
    *("--softmax-temperature", 1.5, "--tokenization", "wordpiece"),
)
RATES = ("loss", "ppl", "objective", "accuracy", "hc_pred", "hc_iter", "sr", "kl")


def training(data: Path, save: Path, *arguments: object) -> list[object]:
    """A fairseq-train command line on the tiny data."""
    return fairseq_train(
        data,
        "--user-dir",
        PLUGIN,
        *TINY_TRAINING,
        *TINY_MODEL,
        "--save-dir",
        save,
        "--no-epoch-checkpoints",
        *arguments,
    )


def logged(output: str, name: str) -> list[dict[str, str]]:
    """The JSON lines that fairseq printed for "train_inner", "train" or "valid"."""
    lines = re.findall(rf"\| {name} \| (\{{.*\}})", output)
    return [json.loads(line) for line in lines]


def parameters(checkpoint: Path) -> dict[str, torch.Tensor]:
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(checkpoint, weights_only=True)["model"]


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("criterion", ["masked_lm_hc", "masked_lm_sr_word", "masked_lm_sr_sent", "masked_lm_true_neg"])
def test_each_criterion_trains_validates_and_logs(criterion, data_bin, tmp_path):
    table = ("--tokenization", "wordpiece") if criterion == "masked_lm_hc" else ()
    result = run_command(training(data_bin, tmp_path, "--criterion", criterion, "--max-update", 6, *table))
    rates = {"loss", "ppl", "objective", "accuracy"}
    rates |= {"masked_lm_hc": {"hc_pred", "hc_iter"}, "masked_lm_sr_word": {"sr"}, "masked_lm_sr_sent": {"kl"}}.get(
        criterion, set()
    )
    steps, valid = logged(result.stdout, "train_inner"), logged(result.stdout, "valid")
    assert len(steps) == 6
    assert all(math.isfinite(float(value)) for step in steps for value in step.values())
    assert rates <= steps[-1].keys()
    assert {f"valid_{rate}" for rate in rates} <= valid[-1].keys()
    assert (tmp_path / "checkpoint_best.pt").exists()


def test_nothing_but_the_criterion_is_needed(binarized, wordnet, tmp_path):
    """On data without a table: it is built from WordNet beside the data, and used again."""
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 2)
    first = run_command(command)
    assert f"{data}/synonyms.npz: not there, building it from wordnet" in first.stdout
    assert "synonyms from wordnet" in first.stderr, "the progress bar"
    written = (data / "synonyms.npz").stat().st_mtime_ns
    second = run_command([*command[:-1], 3])
    assert "building" not in second.stdout
    assert (data / "synonyms.npz").stat().st_mtime_ns == written
    assert len(logged(second.stdout, "train_inner")) == 1, "the second run resumed from the first one's checkpoint"


def test_loss_is_logged_as_stock_logs_it(data_bin, tmp_path):
    """Validation of the same weights: loss and ppl of the new criterion are stock's to the printed digit."""
    start = tmp_path / "start"
    run_command(training(data_bin, start, "--criterion", "masked_lm", "--max-update", 8))
    values = []
    for criterion in (("masked_lm",), EVERYTHING[1:]):
        result = run_command(
            training(
                data_bin,
                tmp_path / criterion[0],
                *("--criterion", *criterion, "--finetune-from-model", start / "checkpoint_last.pt"),
                *("--max-update", 1, "--lr", 0),
            )
        )
        valid = logged(result.stdout, "valid")[-1]
        values.append((valid["valid_loss"], valid["valid_ppl"]))
    assert values[0] == values[1]


def test_finetuning_starts_from_a_plain_masked_lm_checkpoint(data_bin, tmp_path):
    start = tmp_path / "start"
    run_command(training(data_bin, start, "--criterion", "masked_lm", "--max-update", 3))
    run_command(
        training(
            data_bin,
            tmp_path / "next",
            *EVERYTHING,
            *("--finetune-from-model", start / "checkpoint_last.pt", "--max-update", 2, "--lr", 0),
        )
    )
    before, after = parameters(start / "checkpoint_last.pt"), parameters(tmp_path / "next" / "checkpoint_last.pt")
    assert largest_difference(before, after) == 0


def test_killed_and_resumed_training_is_bit_identical(data_bin, tmp_path):
    """Adam's state, the order of the data, the masks and dropout all continue as if nothing had happened."""
    options = (*EVERYTHING, "--save-interval-updates", 40, "--disable-validation")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_command(training(data_bin, whole, *options, "--max-update", 60))
    command = list(map(str, training(data_bin, broken, *options, "--max-update", 100_000)))
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=command_environment())
        deadline = time.monotonic() + 120
        # Not at once when the file appears: fairseq copies it there, and a torn copy is another matter.
        while not re.search(r'"num_updates": "4[3-9]"', log.read_text()):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed = run_command(training(data_bin, broken, *options, "--max-update", 60))
    assert 0 < int(re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ (\d+) updates\)", resumed.stdout).group(1)) < 60
    assert largest_difference(parameters(whole / "checkpoint_last.pt"), parameters(broken / "checkpoint_last.pt")) == 0


def sums(output: str) -> dict[str, float]:
    return {key: float(logged(output, "train")[-1][f"train_{key}"]) for key in RATES}


@pytest.fixture(scope="module")
def one_worker(data_bin, tmp_path_factory):
    """Five updates of one worker with two micro-batches each."""
    save = tmp_path_factory.mktemp("one")
    result = run_command(training(data_bin, save, *EVERYTHING, *NO_DROPOUT, "--max-update", 5, "--update-freq", 2))
    return result.stdout, parameters(save / "checkpoint_last.pt")


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", 2, "--standalone")
LAUNCHES = {
    "spawned": lambda command: [*command, "--distributed-world-size", 2],
    "torchrun": lambda command: [*TORCHRUN, *command[1:]],
}


@pytest.mark.parametrize(
    ("launch", "backend"), [("spawned", "legacy_ddp"), ("torchrun", "pytorch_ddp"), ("spawned", "pytorch_ddp")]
)
def test_two_gloo_workers_equal_one_with_two_micro_batches(launch, backend, one_worker, data_bin, tmp_path):
    command = training(data_bin, tmp_path, *EVERYTHING, *NO_DROPOUT, "--max-update", 5, "--ddp-backend", backend)
    result = run_command(LAUNCHES[launch](command))
    output, expected = one_worker
    assert largest_difference(parameters(tmp_path / "checkpoint_last.pt"), expected) < 1e-6
    actual_sums, expected_sums = sums(result.stdout), sums(output)
    for rate in ("accuracy", "hc_pred", "hc_iter"):
        assert actual_sums[rate] == expected_sums[rate], rate
    for rate in ("loss", "objective", "sr", "kl"):
        assert actual_sums[rate] == pytest.approx(expected_sums[rate], abs=2e-3), rate
    steps, expected_steps = logged(result.stdout, "train_inner"), logged(output, "train_inner")
    assert len(steps) == len(expected_steps) == 5, "one job of two workers, not two jobs"
    for step, expected_step in zip(steps, expected_steps, strict=True):
        assert [step[r] for r in ("accuracy", "hc_pred", "hc_iter")] == [
            expected_step[r] for r in ("accuracy", "hc_pred", "hc_iter")
        ]


def test_two_workers_resume(data_bin, tmp_path):
    """What the first worker reads from the checkpoint reaches the second one with weights_only on."""
    command = training(data_bin, tmp_path, *EVERYTHING, "--distributed-world-size", 2, "--disable-validation")
    run_command([*command, "--max-update", 2])
    result = run_command([*command, "--max-update", 4])
    assert "@ 2 updates" in result.stdout
    assert len(logged(result.stdout, "train_inner")) == 2


def test_of_several_workers_one_builds_the_table(binarized, wordnet, tmp_path):
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 1)
    result = run_command([*command, "--distributed-world-size", 2])
    assert (result.stdout + result.stderr).count("synonyms from wordnet: 100%") == 1


def test_epoch_end_sentences_are_read_one_a_sequence(data_bin, tmp_path):
    """--sample-break-mode eos, which needs a repair on recent numpy."""
    command = training(data_bin, tmp_path, "--criterion", "masked_lm_sr_word", "--max-update", 1)
    run_command([*command, "--sample-break-mode", "eos", "--no-save"])


def hydra(data: Path, save: Path, recipe: str, *overrides: str) -> list[object]:
    tiny = (
        "common.cpu=true common.fp16=false +model.encoder_layers=1 +model.encoder_embed_dim=32 "
        "+model.encoder_ffn_embed_dim=32 +model.encoder_attention_heads=2 model.max_positions=64 "
        "task.tokens_per_sample=24 dataset.batch_size=4 dataset.num_workers=0 optimization.update_freq=[1] "
        "optimization.lr=[0.01] lr_scheduler.warmup_updates=2 common.log_interval=1"
    )
    return [
        *(sys.executable, "-m", "fairseq_cli.hydra_train", "--config-dir", RECIPES, "--config-name", recipe),
        *(f"common.user_dir={PLUGIN}", f"task.data={data}", f"checkpoint.save_dir={save}", *tiny.split(), *overrides),
        *(f"hydra.run.dir={save}/hydra",),
    ]


@pytest.mark.parametrize("recipe", sorted(p.stem for p in RECIPES.glob("*.yaml") if p.stem != "base"))
def test_each_recipe_trains_with_hydra(recipe, data_bin, tmp_path):
    table = ["criterion.tokenization=wordpiece"] if "hc" in recipe else []
    result = run_command(
        hydra(data_bin, tmp_path, recipe, "optimization.max_update=2", *(f"+{o}" for o in table)), cwd=tmp_path
    )
    output = result.stdout + result.stderr
    steps = [json.loads(line) for line in re.findall(r"\[train_inner\]\[INFO\] - (\{.*\})", output)]
    rates = {"hc": {"hc_pred", "hc_iter"}, "sr_word": {"sr"}, "sr_sent": {"kl"}}.get(recipe, {"hc_pred", "sr"})
    assert len(steps) == 2
    assert rates <= steps[-1].keys()
    assert (tmp_path / "checkpoint_last.pt").exists()


def test_hydra_trains_and_resumes_in_bf16(data_bin, tmp_path):
    common = ("common.bf16=true", "+criterion.tokenization=wordpiece", "dataset.disable_validation=true")
    command = hydra(data_bin, tmp_path, "hc_and_sr_word", *common)
    run_command([*command, "optimization.max_update=2"], cwd=tmp_path)
    result = run_command([*command, "optimization.max_update=4"], cwd=tmp_path)
    output = result.stdout + result.stderr
    assert "@ 2 updates" in output
    assert output.count("[train_inner]") == 2
    weight = parameters(tmp_path / "checkpoint_last.pt")["encoder.lm_head.dense.weight"]  # saved in fp32
    assert torch.equal(weight, weight.bfloat16().float()), "the model's own weights were bf16"


def assert_one_line(result: subprocess.CompletedProcess[str], message: str) -> None:
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if "truneg_fairseq: error:" in line]
    assert len(lines) == 1, result.stderr
    assert message in lines[0]
    assert "Traceback" not in result.stderr + result.stdout


def test_errors_leave_fairseq_train_as_one_line(data_bin, tmp_path):
    foreign = tmp_path / "foreign.npz"
    foreign.write_bytes(b"PK\x03\x04 not much else")
    result = run_command(
        training(data_bin, tmp_path, "--criterion", "masked_lm_hc", "--synonym-table", foreign), check=False
    )
    assert_one_line(result, f"{foreign}: not a synonym table, or a damaged one")
    result = run_command(
        training(data_bin, tmp_path, "--criterion", "masked_lm_sr_word", "--untie-weights-roberta"), check=False
    )
    assert_one_line(result, "--sr-word-weight 1.0: RobertaModel does not tie its MLM head")


def test_errors_leave_hydra_as_one_line(data_bin, tmp_path):
    result = run_command(hydra(data_bin, tmp_path, "sr_word", "criterion.sr_word_weight=-1"), check=False, cwd=tmp_path)
    assert_one_line(result, "--sr-word-weight: found -1.0, expected a finite number >= 0")


def test_missing_wordnet_is_one_line_with_the_ways_to_get_it(binarized, tmp_path):
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    nowhere = tmp_path / "python"  # an interpreter environment whose NLTK data folders do not exist
    hide = (
        "import nltk.data; nltk.data.path[:] = [p for p in nltk.data.path if p.startswith('/nowhere')]; "
        "import sys; sys.argv = sys.argv[1:]; from fairseq_cli.train import cli_main; cli_main()"
    )
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 1)
    result = run_command(
        [command[0], "-c", hide, "fairseq-train", *command[3:]], check=False, env={"HOME": str(nowhere)}
    )
    assert_one_line(result, "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet'")
    assert not list(data.glob("synonyms*"))


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_an_unwritable_data_folder_falls_back_to_the_cache(binarized, wordnet, tmp_path):
    """Root may write everywhere: the command gives that right up."""
    data, cache = tmp_path / "data-bin", tmp_path / "cache"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    data.chmod(0o555)
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 1)
    drop = "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    try:
        result = run_command([sys.executable, "-c", drop, *command], env={"XDG_CACHE_HOME": str(cache)})
    finally:
        data.chmod(0o755)
    assert f"{data}: cannot be written (Permission denied); the synonym table is kept in {cache}" in result.stdout
    assert not (data / "synonyms.npz").exists()
    assert len(list((cache / "truneg_fairseq").glob("wordnet-*.npz"))) == 1


def test_inspect_measures_what_validation_logged(data_bin, tmp_path):
    hard_correction = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
    result = run_command(training(data_bin, tmp_path, *hard_correction, "--max-update", 40))
    valid = logged(result.stdout, "valid")[-1]
    output = tmp_path / "rates.jsonl"
    shown = run_command(
        truneg(
            *("inspect", "--checkpoint", tmp_path / "checkpoint_last.pt", "--data", data_bin, "--batch-size", 4),
            *("--tokenization", "wordpiece", "--json", output, "--examples", 3, "--color", "always"),
        )
    )
    record = json.loads(output.read_text())
    assert record["updates"] == 40
    for name in ("loss", "accuracy", "hc_pred", "hc_iter"):
        assert record[name] == float(valid[f"valid_{name}"]), name
    shown_count, found = map(int, re.search(r"(\d+) of (\d+) false negatives", shown.stdout).groups())
    assert (found > 0) == (record["hc_pred"] > 0)
    assert shown.stdout.count("\x1b[1;32m") == 2 * shown_count


def test_hydra_under_torchrun(data_bin, tmp_path):
    """hydra loads plugins after it has looked for a launcher: rank and rendezvous are given as overrides."""
    overrides = (
        "distributed_training.distributed_world_size=2 distributed_training.distributed_rank=$RANK "
        "distributed_training.distributed_init_method=env:// distributed_training.distributed_no_spawn=true "
        "distributed_training.distributed_backend=gloo optimization.max_update=2"
    )
    command = " ".join(map(str, hydra(data_bin, tmp_path, "sr_word")))
    result = run_command([*TORCHRUN, "--no_python", "bash", "-c", f"{command} {overrides}"], cwd=tmp_path)
    assert (result.stdout + result.stderr).count("[train_inner]") == 2, "one job of two workers, not two jobs"
