"""A first-time user's mistakes: one line each, before anything is built."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.cli_runs import assert_one_line, hydra, training
from support.commands import CUDA, ELECTRA_MODEL, ELECTRA_TRAINING, PLUGIN, TINY_MODEL, TINY_TRAINING, run_command
from support.trainings import batches, build, configuration, parse, trainer_of

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.fairseq_runs.fairseq_trainer import PluginTrainer
from truneg_fairseq.fairseq_runs.preflight import check
from truneg_fairseq.vocabulary import read_symbols

MASKED_LM = (*TINY_TRAINING, *TINY_MODEL, "--criterion", "masked_lm")
ELECTRA = (*ELECTRA_TRAINING, *ELECTRA_MODEL)
OTHERS = ("--batch-size", 4, "--optimizer", "adam", "--no-save")
CONTEXT = "--hc-weight 1 --hc-detector table+context --encoder-layerdrop 0.1"
ELECTRA_ON_BERT = "--task electra_pretraining --criterion electra --arch bert_base"
HC_ON_LM = "--task language_modeling --criterion masked_lm_hc --arch bert_base"


@pytest.mark.parametrize(
    ("base", "flags", "message"),
    [
        (MASKED_LM, "--bf16", "--bf16: is for TPUs"),
        (MASKED_LM, "--best-checkpoint-metric accuracy", "accuracy: found no --maximize-best-checkpoint-metric, so"),
        (MASKED_LM, "--best-checkpoint-metric f1", "f1: found no --maximize-best-checkpoint-metric, so"),
        (MASKED_LM, "--maximize-best-checkpoint-metric", "loss: found --maximize-best-checkpoint-metric, so"),
        (MASKED_LM, f"--save-dir {__file__}/run", f"--save-dir {__file__}/run/.*: cannot be written .Not a directory"),
        (MASKED_LM, "--mask-whole-words", "--mask-whole-words: found --task masked_lm, expected electra_pretraining"),
        (MASKED_LM, "--skip-masking", "--skip-masking: masks no token, and all would be predicted"),
        (MASKED_LM, "--mask-prob 0", "--mask-prob 0.0: expected a number between 0 and 1"),
        (MASKED_LM, "--leave-unmasked-prob .6 --random-token-prob .6", "0.6: expected shares of at most 1 together"),
        (MASKED_LM, "--criterion label_smoothed_true_neg", "--task masked_lm, expected one whose model generates"),
        (MASKED_LM, "--finetune-from-model /nowhere/a.pt", "--finetune-from-model /nowhere/a.pt: cannot be read"),
        pytest.param(MASKED_LM, "--fp16", "--fp16: found no GPU", marks=pytest.mark.skipif(CUDA, reason="a GPU")),
        (ELECTRA, "--criterion masked_lm_hc", "with --arch electra_tiny, whose masked LM is the generator"),
        (ELECTRA, CONTEXT, r"table\+context: compares two passes layer by layer; expected one without --encoder-layer"),
        (OTHERS, ELECTRA_ON_BERT, "--criterion electra: found --arch bert_base"),
        (OTHERS, HC_ON_LM, "--task language_modeling, expected --task masked_lm or electra_pretraining"),
    ],
)
def test_options_that_would_train_nonsense_are_refused(base, flags, message, data_bin):
    with pytest.raises(TrueNegError, match=message):
        check(parse([data_bin, "--user-dir", PLUGIN, *base, *flags.split()]))


def test_what_is_missing_of_the_data_is_named(data_bin, tmp_path):
    data = tmp_path / "data"

    def told() -> str:
        with pytest.raises(TrueNegError) as caught:
            check(configuration(data, "--criterion", "masked_lm"))
        return str(caught.value)

    assert f"{data}/dict.txt: no such file" in told()
    data.mkdir()
    shutil.copy(data_bin / "dict.txt", data)
    assert f"{data}/train.idx: no such file; expected the split train" in told()
    for suffix in ("bin", "idx"):
        shutil.copy(data_bin / f"train.{suffix}", data)
    assert f"{data}/valid.idx: no such file; expected the split valid, binarized; --disable-validation" in told()
    second = tmp_path / "second"  # of the second epoch
    second.mkdir()
    with pytest.raises(TrueNegError, match=f"{second}/dict.txt: no such file"):
        check(configuration(f"{data_bin}:{second}", "--criterion", "masked_lm"))
    shutil.copytree(data_bin, second, dirs_exist_ok=True)
    (second / "valid.idx").unlink()
    check(configuration(f"{data_bin}:{second}", "--criterion", "masked_lm"))


def test_a_bad_model_to_finetune_is_named(data_bin, tmp_path):
    bad = tmp_path / "bad.pt"
    for content, message in (({"model": Path}, "is not safe to load"), ([1], "is not a checkpoint of fairseq")):
        torch.save(content, bad)
        with pytest.raises(TrueNegError, match=f"--finetune-from-model {bad}: .*{message}"):
            check(configuration(data_bin, "--criterion", "masked_lm", "--finetune-from-model", bad))
    (tmp_path / "config.json").touch()  # a folder of Hugging Face's
    with pytest.raises(TrueNegError, match=r"is a Hugging Face model, .*: truneg convert"):
        check(configuration(data_bin, "--finetune-from-model", tmp_path, "--save-dir", tmp_path / "run"))


@pytest.mark.parametrize("split", ["train", "train1", "valid"])
def test_data_that_are_cut_are_one_line(split, data_bin, tmp_path):
    data = shutil.copytree(data_bin, tmp_path / "data")
    for suffix in ("bin", "idx"):
        shutil.copy(data / f"train.{suffix}", data / f"train1.{suffix}")  # read after train
    cut = data / f"{split}.bin"
    whole = cut.stat().st_size
    os.truncate(cut, whole - 10)
    message = f"{cut}: has {whole - 10:,} bytes, its index expects {whole:,}"
    with pytest.raises(TrueNegError, match=message):
        check(configuration(data, "--criterion", "masked_lm"))
    if split == "train":  # without the check fairseq trains, and ends in numpy's traceback
        assert_one_line(run_command(training(data, tmp_path / "run", "--criterion", "masked_lm"), check=False), message)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_split_without_a_token_is_one_line(split, data_bin, tmp_path):
    data = shutil.copytree(data_bin, tmp_path / "data")
    (data / f"{split}.bin").write_bytes(b"")
    (data / f"{split}.idx").write_bytes((data / f"{split}.idx").read_bytes()[:18] + bytes(8))
    with pytest.raises(TrueNegError, match=rf"{data / split}\.bin: has no token"):
        check(configuration(data, "--criterion", "masked_lm"))


def test_an_id_beyond_the_dictionary_is_one_line_where_it_is_read(data_bin, tmp_path, monkeypatch):
    data = shutil.copytree(data_bin, tmp_path / "data")
    ids = np.memmap(data / "train.bin", np.uint16, "r+")
    ids[:] = np.where(ids > 9, len(read_symbols(data)), ids)
    ids.flush()
    monkeypatch.setattr(np, "memmap", None)
    check(configuration(data, "--criterion", "masked_lm"))  # reads no token, of which there are billions
    monkeypatch.undo()
    trainer, task, *_ = trainer_of(data, "--criterion", "masked_lm", "--save-dir", tmp_path)
    with pytest.raises(SystemExit, match=f"{data}: has the id {ids.max()}, but the dictionary {ids.max()} symbols"):
        trainer.train_step(batches(task, 1))


@pytest.mark.skipif(CUDA, reason="a GPU")
def test_an_overflow_without_a_gpu_is_one_line(data_bin):
    half = ("--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", 2**40)
    trainer, task, *_ = trainer_of(data_bin, "--criterion", "masked_lm", *half)
    with pytest.raises(SystemExit, match="--fp16: a gradient has overflowed, which needs a GPU"):
        trainer.train_step(batches(task, 1))


def test_samples_longer_than_the_models_positions_are_refused(data_bin):
    with pytest.raises(SystemExit, match="--tokens-per-sample 65: the model has 64 positions"):
        trainer_of(data_bin, "--criterion", "masked_lm", "--tokens-per-sample", 65)


def test_a_sample_too_long_to_validate_on_is_named_before_the_training(data_bin):
    """fairseq's modes of whole sentences do not cut one; in training it leaves them out, and says how many."""
    modes = ("--sample-break-mode", "complete", "--tokens-per-sample", 8)
    cfg, task, model, criterion = build(data_bin, "--no-save", "--criterion", "masked_lm", *modes)
    task.load_dataset("valid")
    line = (
        r"--valid-subset valid: Size of sample .* is invalid .=\d+. since max_positions=8, .* --sample-break-mode none"
    )
    with pytest.raises(SystemExit, match=line):
        PluginTrainer(cfg, task, model, criterion)
    cfg.dataset.skip_invalid_size_inputs_valid_test = True
    PluginTrainer(cfg, task, model, criterion)


def test_hydra_too(data_bin, tmp_path):
    result = run_command(hydra(data_bin, tmp_path, "sr_word", "task.data=data-bin"), check=False, cwd=tmp_path)
    assert_one_line(result, f"{tmp_path}/hydra/data-bin/dict.txt: no such file")
    lengths = ("model._name=truneg_bert_tiny", "~model.max_positions", "task.tokens_per_sample=513")
    result = run_command(hydra(data_bin, tmp_path, "sr_word", *lengths), check=False, cwd=tmp_path)
    assert_one_line(result, "--tokens-per-sample 513: the model has 512 positions")


def test_another_criterion_or_optimizer_is_one_line_on_resuming(data_bin, tmp_path):
    """Also where checkpoint_last.pt is not there any more."""
    stock = ("--criterion", "masked_lm", "--max-update", 1, "--disable-validation")
    run_command(training(data_bin, tmp_path, *stock))
    other = training(data_bin, tmp_path, "--criterion", "masked_lm_sr_word", "--max-update", 2)
    message = f"--save-dir {tmp_path}: holds another training: Criterion does not match"
    assert_one_line(run_command(other, check=False), message)
    (tmp_path / "checkpoint_last.pt").rename(tmp_path / "checkpoint1.pt")
    result = run_command(training(data_bin, tmp_path, *stock, "--optimizer", "electra_adam"), check=False)
    assert_one_line(result, "holds another training: Optimizer does not match")
    assert "Choose another folder, or remove the checkpoints of this one" in result.stderr
