"""Soft targets from a corpus and from the embeddings inside real fairseq objects."""

from __future__ import annotations

import shutil

import pytest
import torch
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command, truneg
from support.trainings import batches, build, configuration, make, trainer_of

from truneg_fairseq.corpus_counts import FILE_NAME
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.trainer.trainer import PluginTrainer

CRITERION = ("--criterion", "masked_lm_true_neg")
BOTH = ("--corpus-targets", 0.2, "--nearest-targets", 0.1)


@pytest.fixture(scope="module")
def counted(binarized, tmp_path_factory):
    path = tmp_path_factory.mktemp("counts") / FILE_NAME
    run_command(truneg("data", "counts", "--data", binarized, "--output", path))
    return ("--corpus-counts", path)


def test_a_training_reads_the_counts_beside_its_data(binarized, counted, tmp_path):
    data = tmp_path / "data-bin"
    data.mkdir()
    for path in binarized.iterdir():
        (data / path.name).symlink_to(path)
    (data / FILE_NAME).symlink_to(counted[1])
    cfg = configuration(data, *CRITERION, *BOTH)
    _, _, criterion = make(cfg)
    assert criterion.objective.corpus is not None
    assert not criterion.state_dict()


@pytest.fixture(scope="module")
def taught_by(binarized, tmp_path_factory):
    """A model of another size."""
    trainer, *_ = trainer_of(binarized, "--criterion", "masked_lm", "--encoder-layers", 1, "--no-save-optimizer-state")
    path = tmp_path_factory.mktemp("teacher") / "teacher.pt"
    PluginTrainer.save_checkpoint(trainer, str(path), {})
    return ("--teacher", path)


def test_a_teacher_reads_the_masked_sentence(binarized, taught_by):
    from fairseq.checkpoint_utils import load_model_ensemble

    flags = ("--teacher-targets", 0.3, *taught_by)
    _, task, model, criterion = build(binarized, *CRITERION, *flags)
    before = torch.get_rng_state()
    (teacher,) = load_model_ensemble([str(taught_by[1])], {"data": str(binarized)})[0]
    torch.set_rng_state(before)
    teacher.eval()
    for sample in batches(task, 2):
        predicted = criterion.predict(model.eval(), sample)
        masked = sample["target"].ne(criterion.padding_idx)
        tokens = torch.where(masked, task.mask_idx, sample["net_input"]["src_tokens"])
        q = teacher(tokens)[0][masked].softmax(1)
        q = torch.where(q >= q.topk(64, dim=1).values[:, -1:], q, 0.0) if q.size(1) > 64 else q
        target = 0.3 * q / q.sum(1, keepdim=True)
        target[torch.arange(len(q)), predicted.gold] += 0.7
        expected = -(target * predicted.logits.log_softmax(1)).sum()
        criterion.train()
        torch.testing.assert_close(criterion(model, sample)[0], expected, rtol=1e-5, atol=1e-5)
    assert not list(criterion.parameters()), "fairseq trains and saves a criterion's parameters"


def test_a_teacher_of_another_dictionary_is_refused(binarized, taught_by, tmp_path):
    other = shutil.copytree(binarized, tmp_path / "other")
    first, second, *rest = (other / "dict.txt").read_text().splitlines(keepends=True)
    (other / "dict.txt").write_text("".join((second, first, *rest)))
    with pytest.raises(SystemExit, match=r"other: was made with a vocabulary of .*, the checkpoint is of"):
        build(other, *CRITERION, "--teacher-targets", 0.3, *taught_by)


@pytest.mark.slow
def test_a_training_tells_its_counts_and_one_that_goes_on_with_others_says_so(binarized, counted, tmp_path):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / FILE_NAME
    run_command(truneg("data", "counts", "--data", binarized, "--most", 2, "--output", other))
    flags = [binarized, "--user-dir", PLUGIN, *TINY_TRAINING, *TINY_MODEL, *CRITERION, *BOTH]
    saving = ("--disable-validation", "--save-dir", tmp_path / "saved", "--max-update")
    first = run_command(fairseq_train(*flags, *counted, *saving, 1)).stdout
    assert f"corpus counts {counted[1]}: 1,925 tokens, " in first
    again = run_command(fairseq_train(*flags, "--corpus-counts", other, *saving, 2)).stdout
    assert "the data differ from the start of " in again
    assert f" ({FILE_NAME})" in again


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--teacher-targets", 0.1), r"--teacher-targets 0\.1: expected --teacher"),
        (("--teacher-targets", 0.1, "--teacher", "none.pt"), r"none\.pt: no such file"),
        (BOTH, r"data-bin/corpus_counts\.npz: no such file; expected .* 'truneg data counts"),
        (
            ("--uniform-targets", 0.8, *BOTH),
            r"--corpus-targets 0\.2, --uniform-targets 0\.8, .*: the shares are more than the whole",
        ),
    ],
)
def test_mistakes_are_named(flags, message, binarized):
    with pytest.raises((TrueNegError, SystemExit), match=message):
        build(binarized, *CRITERION, *flags)
