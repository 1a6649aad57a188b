"""A first-time user's mistakes, through the real fairseq-train: one line each, before anything is built."""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from support.cli_runs import assert_one_line, hydra, logged, training
from support.commands import CUDA, PLUGIN, run_command
from support.electra import ELECTRA_MODEL, ELECTRA_TRAINING
from support.trainings import configuration, parse

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.runs.preflight import check

HARD_CORRECTION = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
ELECTRA = ("--task", "electra_pretraining", "--criterion", "electra")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--batch-size", 0), "--batch-size 0: expected 1 or more"),
        (("--dropout", 2), "--dropout 2.0: expected [0, 1)"),
        (("--encoder-layerdrop", 1), "--encoder-layerdrop 1.0: expected [0, 1)"),
        (("--lr-scheduler", "inverse_sqrt", "--warmup-updates", -3), "--warmup-updates -3: expected 0 or more"),
        (("--mask-whole-words",), "--mask-whole-words: fairseq's task masked_lm fails with it; expected --task electr"),
        (("--encoder-ffn-embed-dim", 0), "--encoder-ffn-embed-dim 0: expected 1 or more"),
        (("--encoder-layers", -1), "--encoder-layers -1: expected 1 or more"),
        (("--encoder-attention-heads", 5), "--encoder-attention-heads 5: does not divide --encoder-embed-dim 32"),
        (("--tokens-per-sample", 65), "--tokens-per-sample 65: the model has 64 positions"),
        (("--batch-size", 4, "--max-tokens", 10), "--max-tokens 10: less than one sample of --tokens-per-sample 24"),
        (("--mask-prob", 1), "--mask-prob 1.0: expected between 0 and 1"),
        (("--mask-multiple-length", 0), "--mask-multiple-length 0: expected 1 or more"),
        (("--mask-multiple-length", 2, "--mask-stdev", -1), "--mask-stdev -1.0: expected finite and 0 or more"),
        (("--random-token-prob", 0.6, "--leave-unmasked-prob", 0.5), "0.5: with --random-token-prob 0.6 it exceeds 1"),
        (("--update-freq", 0), "--update-freq 0: expected 1 or more"),
        (("--amp",), "--amp: found --cpu, where it has no effect; expected a GPU"),
        (("--lr", -1), "--lr -1.0: expected finite and 0 or more"),
        (("--seed", -1), "--seed -1: expected 0 to 4294967295"),
        (("--bf16",), "--bf16: fairseq-train needs a TPU"),
        (("--finetune-from-model", "/nowhere/a.pt"), "--finetune-from-model /nowhere/a.pt: no such file"),
        (("--restore-file", "/nowhere/a.pt"), "--restore-file /nowhere/a.pt: no such file"),
        (("--criterion", "masked_lm_hc", "--task", "language_modeling"), "found --task language_modeling, expected"),
    ],
)
def test_a_wrong_option_is_one_line(flags, message, data_bin, tmp_path):
    command = training(data_bin, tmp_path / "run", "--criterion", "masked_lm", "--max-update", 1, *flags)
    if "language_modeling" in flags:  # which knows fewer options than masked_lm
        place = command.index("--mask-prob")
        del command[place : place + 2]
    assert_one_line(run_command(command, check=False), message)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(CUDA, reason="there is a GPU")
@pytest.mark.parametrize("cpu", [False, True])
def test_fp16_without_a_gpu_is_one_line(cpu, data_bin, tmp_path):
    command = training(data_bin, tmp_path / "run", "--criterion", "masked_lm", "--max-update", 1, "--fp16")
    if not cpu:
        command.remove("--cpu")
    assert_one_line(run_command(command, check=False), "--fp16: found no GPU")


def test_electra_needs_its_own_model_with_positions_for_its_samples(data_bin, tmp_path):
    for flags, message in (
        (("--arch", "truneg_bert_base"), "--criterion electra: found --arch truneg_bert_base"),
        (("--arch", "electra_small", "--tokens-per-sample", 65), "--tokens-per-sample 65: the model has 64 positions"),
    ):
        command = training(data_bin, tmp_path / "run", *ELECTRA, *flags, "--max-update", 1)
        place = command.index("--sample-break-mode")
        del command[place : place + 2]
        assert_one_line(run_command(command, check=False), message)


def test_what_is_missing_of_the_data_is_named(data_bin, tmp_path):
    data = tmp_path / "data"

    def told() -> str:
        result = run_command(training(data, tmp_path / "run", "--criterion", "masked_lm"), check=False)
        assert_one_line(result, f"{data}")
        return result.stderr

    assert f"{data}: no such folder; expected binarized data" in told()
    data.mkdir()
    assert f"{data}/dict.txt: no such file" in told()
    shutil.copy(data_bin / "dict.txt", data)
    assert f"{data}/train.idx: no such file; expected the split train" in told()
    for suffix in ("bin", "idx"):
        shutil.copy(data_bin / f"train.{suffix}", data)
    assert f"{data}/valid.idx: no such file; expected the split valid, binarized; --disable-validation" in told()
    second = tmp_path / "second"  # of the second epoch
    second.mkdir()
    with pytest.raises(TrueNegError, match=f"{second}/train.idx: no such file; expected the split train, binarized$"):
        check(configuration(f"{data_bin}:{second}", "--criterion", "masked_lm"))
    shutil.copytree(data_bin, second, dirs_exist_ok=True)
    (second / "valid.idx").unlink()
    check(configuration(f"{data_bin}:{second}", "--criterion", "masked_lm"))
    data = data.rename(tmp_path / "a:b")
    assert f"task.data {data}: has a ':' in its whole path" in told()


def test_a_bad_model_to_finetune_is_named(data_bin, tmp_path):
    good, bad = tmp_path / "good.pt", tmp_path / "bad.pt"
    torch.save({"model": {}, "optimizer_history": [], "args": Namespace()}, good)

    def told(content: bytes) -> str:
        bad.write_bytes(content)
        command = training(data_bin, tmp_path / "run", "--criterion", "masked_lm", "--finetune-from-model", bad)
        result = run_command(command, check=False)
        assert_one_line(result, f"--finetune-from-model {bad}: ")
        return result.stderr

    whole = good.read_bytes()
    assert "cannot be read (File is not a zip file)" in told(whole[: len(whole) // 2])
    torch.save({"model": Path}, good)
    assert "is not safe to load" in told(good.read_bytes())
    torch.save([1], good)
    assert "is not a checkpoint of fairseq" in told(good.read_bytes())


def test_hydra_tells_the_same(data_bin, tmp_path):
    result = run_command(hydra(data_bin, tmp_path, "sr_word", "dataset.batch_size=0"), check=False, cwd=tmp_path)
    assert_one_line(result, "--batch-size 0: expected 1 or more")
    result = run_command(hydra(data_bin, tmp_path, "sr_word", "task.data=data-bin"), check=False, cwd=tmp_path)
    assert_one_line(result, "data-bin: no such folder in ")
    assert "to which hydra has changed; give an absolute path" in result.stderr
    lengths = ("model._name=truneg_bert_tiny", "~model.max_positions", "task.tokens_per_sample=513")
    result = run_command(hydra(data_bin, tmp_path, "sr_word", *lengths), check=False, cwd=tmp_path)
    assert_one_line(result, "--tokens-per-sample 513: the model has 512 positions")


def test_another_criterion_is_one_line_on_resuming(data_bin, tmp_path):
    run_command(training(data_bin, tmp_path, "--criterion", "masked_lm", "--max-update", 1, "--disable-validation"))
    other = training(data_bin, tmp_path, "--criterion", "masked_lm_sr_word", "--max-update", 2)
    assert_one_line(run_command(other, check=False), "Criterion does not match")


def test_another_width_is_one_line_without_the_advice_that_was_followed(data_bin, tmp_path):
    one = ("--criterion", "masked_lm", "--max-update", 1, "--disable-validation")
    run_command(training(data_bin, tmp_path / "one", *one))
    model = ("--encoder-embed-dim", 16, "--finetune-from-model", tmp_path / "one" / "checkpoint_last.pt")
    result = run_command(training(data_bin, tmp_path / "other", *one, *model), check=False)
    assert_one_line(result, "Cannot load model parameters")
    assert "To start from the weights alone" not in result.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--num-workers", -1), "--num-workers -1: expected 0 to 256"),
        (("--num-workers", 1000), "--num-workers 1000: expected 0 to 256"),
        (("--seed", 10**20), f"--seed {10**20}: expected 0 to 4294967295"),
        (("--required-batch-size-multiple", 0), "--required-batch-size-multiple 0: expected 1 or more"),
        (("--max-tokens-valid", 16), "--max-tokens-valid 16: less than one sample of --tokens-per-sample 24"),
        (("--validate-interval", 0), "--validate-interval 0: expected 1 or more"),
        (("--keep-interval-updates-pattern", 0), "--keep-interval-updates-pattern 0: expected a number other than 0"),
        (("--adam-betas", "(0.9,0.98"), r"--adam-betas: found \(0.9,0.98, expected two numbers in \[0, 1\)"),
        (("--adam-betas", "0.9"), "--adam-betas: found 0.9, expected two numbers"),
        (("--adam-betas", "(0.9, 1.5)"), r"--adam-betas: found \(0.9, 1.5\), expected two numbers"),
        (
            ("--lr-scheduler", "polynomial_decay", "--total-num-update", 0),
            "--total-num-update 0: expected 1 or more",
        ),
        (("--lr-scheduler", "polynomial_decay", "--max-epoch", 2), "or --max-update in its place"),
    ],
)
def test_numbers_out_of_range(flags, message, tmp_path):
    """In this process: the data are looked at last."""
    flags = [str(flag) for flag in flags]
    with pytest.raises(TrueNegError, match=message):
        check(configuration(tmp_path, *flags))


def test_folders_that_cannot_be_written_to(data_bin, tmp_path):
    file = tmp_path / "file"
    file.touch()
    for flags, message in (
        (("--save-dir", file), f"--save-dir {file}: {file} is not a folder; choose another"),
        (("--save-dir", file / "run"), f"--save-dir {file}/run: {file} is not a folder; choose another"),
        (("--save-dir", ""), "--save-dir: found an empty name, expected a folder"),
        (("--log-file", tmp_path / "logs" / "x.log"), f"x.log: found no folder {tmp_path}/logs; make it"),
        (("--continue-once", tmp_path / "typo.pt"), f"--continue-once {tmp_path}/typo.pt: no such file"),
    ):
        with pytest.raises(TrueNegError, match=message):
            check(configuration(data_bin, "--criterion", "masked_lm", *flags))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--best-checkpoint-metric", "accuracy"), "accuracy: found no --maximize-best-checkpoint-metric, so"),
        (("--best-checkpoint-metric", "disc_recall"), "disc_recall: found no --maximize-best-checkpoint-metric, so"),
        (
            ("--best-checkpoint-metric", "disc_loss", "--maximize-best-checkpoint-metric"),
            "with --best-checkpoint-metric disc_loss checkpoint_best.pt would be the worst",
        ),
        (("--maximize-best-checkpoint-metric",), "with --best-checkpoint-metric loss checkpoint_best.pt would be the"),
    ],
)
def test_a_best_checkpoint_that_would_be_the_worst(flags, message, data_bin):
    with pytest.raises(TrueNegError, match=message):
        check(configuration(data_bin, "--criterion", "masked_lm", *flags))
    both = ("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric")
    check(configuration(data_bin, "--criterion", "masked_lm", *both))


def test_a_metric_that_is_not_logged_is_told_in_the_first_update(data_bin, tmp_path):
    def trained(metric: str, *flags: object):
        metric_flags = ("--best-checkpoint-metric", metric, "--max-update", 2, *flags)
        return run_command(training(data_bin, tmp_path / metric, *HARD_CORRECTION, *metric_flags), check=False)

    names = "accuracy, bsz, hc_iter, hc_pred, loss, objective, ppl, wpb, wps"
    assert_one_line(trained("acuracy"), f"--best-checkpoint-metric acuracy: is not logged; expected one of {names}")
    assert_one_line(trained("gnorm"), "--best-checkpoint-metric gnorm: is not logged")  # in training alone
    trained("acuracy", "--disable-validation").check_returncode()
    trained("ppl").check_returncode()
    assert (tmp_path / "ppl" / "checkpoint_best.pt").exists()


def test_the_learning_rate_falls_over_the_whole_run_unless_told_otherwise(data_bin, tmp_path):
    decay = ("--criterion", "masked_lm", "--lr-scheduler", "polynomial_decay", "--max-update", 4)
    output = run_command(training(data_bin, tmp_path / "run", *decay)).stdout
    assert [float(entry["lr"]) for entry in logged(output, "train_inner")] == [0.0075, 0.005, 0.0025, 0]
    cfg = configuration(data_bin, *decay, "--total-num-update", 9)
    assert cfg.lr_scheduler.total_num_update == 9


def test_samples_that_do_not_fit_are_told_before_the_first_update(data_bin, tmp_path):
    lines = (data_bin.parent / "valid.txt").read_text(encoding="utf-8").splitlines()
    longest = max(len(line.split()) for line in lines) + 2  # <s> and </s>
    told = f"--tokens-per-sample 9: valid has a sample of {longest} tokens, as --sample-break-mode keeps"
    short = ("--max-update", 1, "--sample-break-mode", "complete", "--tokens-per-sample", 9)
    command = training(data_bin, tmp_path / "run", *HARD_CORRECTION, *short)
    assert_one_line(run_command(command, check=False), told)
    assert not list((tmp_path / "run").glob("*.pt"))
    run_command([*command, "--skip-invalid-size-inputs-valid-test"])
    checkpoint = ("--path", tmp_path / "run" / "checkpoint_last.pt")
    flags = ("--user-dir", PLUGIN, "--task", "masked_lm", "--batch-size", 4, "--cpu")
    validation = [sys.executable, "-m", "fairseq_cli.validate", data_bin, *checkpoint, *flags]
    assert_one_line(run_command(validation, check=False), told)
    run_command([*validation, "--skip-invalid-size-inputs-valid-test"])


def test_two_passes_with_other_layers_need_another_backend(data_bin):
    flags = ("--criterion", "masked_lm_sr_sent", "--encoder-layerdrop", 0.5, "--distributed-world-size", 2)
    with pytest.raises(
        TrueNegError, match=r"--ddp-backend pytorch_ddp: cannot follow two passes whose --encoder-layerd"
    ):
        check(configuration(data_bin, *flags))
    check(configuration(data_bin, *flags, "--ddp-backend", "legacy_ddp"))
    check(configuration(data_bin, *flags, "--sr-sent-weight", 0))
    check(configuration(data_bin, *flags, "--distributed-world-size", 1))


MASKED_LM_OF_ELECTRA = "found --task electra_pretraining with --arch electra_tiny, whose masked LM is the generator"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--criterion", "masked_lm_hc"), f"--criterion masked_lm_hc: {MASKED_LM_OF_ELECTRA}"),
        (("--criterion", "masked_lm"), f"--criterion masked_lm: {MASKED_LM_OF_ELECTRA}"),
        (("--generator-layers", 0), "--generator-layers 0: expected 1 or more"),
        (("--generator-embed-dim", 0), "--generator-embed-dim 0: expected 1 or more"),
        (("--generator-ffn-embed-dim", 0), "--generator-ffn-embed-dim 0: expected 1 or more"),
        (("--generator-attention-heads", 0), "--generator-attention-heads 0: expected 1 or more"),
        (("--embedding-dim", 0), "--embedding-dim 0: expected 1 or more"),
        (("--layer-norm-eps", -1), "--layer-norm-eps -1.0: expected finite and 0 or more"),
        (
            ("--hc-weight", 1, "--hc-detector", "table+context", "--encoder-layerdrop", 0.1),
            r"--hc-detector table\+context: compares two passes layer by layer; expected one without --encoder-layer",
        ),
    ],
)
def test_what_an_electra_cannot_train_with(flags, message, tmp_path):
    command = [tmp_path, "--user-dir", PLUGIN, *ELECTRA_TRAINING, *ELECTRA_MODEL, *flags]
    with pytest.raises(TrueNegError, match=message):
        check(parse(command))


def test_a_hugging_face_folder_is_no_model_to_finetune(data_bin, tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(TrueNegError, match=r"is a Hugging Face model, .*: truneg convert from-hf"):
        check(configuration(data_bin, "--finetune-from-model", tmp_path, "--save-dir", tmp_path / "run"))
