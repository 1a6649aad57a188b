"""What fairseq trains without the plugin, it trains with the plugin: cases that its own tests/test_binaries.py has."""

from __future__ import annotations

import sys

import pytest
from support.cli_runs import training
from support.commands import PLUGIN, fairseq_train, run_command
from support.translations import MODEL, TRAINING, write_translations

STOCK = ("--criterion", "masked_lm", "--disable-validation", "--max-update", 1)
OLD_CRITERION = """
import sys
sys.argv[:1] = []
from fairseq.criterions import LegacyFairseqCriterion, register_criterion
@register_criterion("old")
class Old(LegacyFairseqCriterion):
    def forward(self, model, sample, reduce=True):
        scores, target = model(**sample["net_input"])[0], model.get_targets(sample, None)
        loss = scores.flatten(0, 1).logsumexp(1).sum() + 0 * target.sum()
        return loss, sample["ntokens"], {"loss": loss.data, "sample_size": sample["ntokens"]}
    @staticmethod
    def reduce_metrics(logs):
        pass
from fairseq_cli.train import cli_main
cli_main()
"""


def test_a_criterion_without_a_dataclass(tmp_path):
    """It gets a Namespace as its configuration, as composite_loss, sentence_ranking and those of examples/rxf do."""
    data = write_translations(tmp_path / "data")
    task = ("--user-dir", PLUGIN, "--task", "translation", *MODEL, *TRAINING, "--save-dir", tmp_path / "run")
    command = fairseq_train(data, *task, "--criterion", "old", "--max-update", 1, "--disable-validation")
    run_command([sys.executable, "-c", OLD_CRITERION, "train", *command[3:]])
    assert (tmp_path / "run" / "checkpoint_last.pt").exists()


@pytest.mark.parametrize("architecture", ["lightconv_lm", "lightconv_lm_gbw"])
def test_an_architecture_that_cannot_be_asked_for_its_positions(architecture, data_bin, tmp_path):
    sizes = "--decoder-layers 1 --decoder-embed-dim 32 --decoder-ffn-embed-dim 32 --decoder-attention-heads 2".split()
    sizes += ["--decoder-conv-type", "dynamic", "--decoder-kernel-size-list", "[3]", "--batch-size", "4", "--cpu"]
    task = ("--user-dir", PLUGIN, "--task", "language_modeling", "--arch", architecture, *sizes)
    flags = ("--optimizer", "adam", "--tokens-per-sample", 24, "--max-update", 1, "--disable-validation")
    run_command(fairseq_train(data_bin, *task, *flags, "--save-dir", tmp_path))


def test_a_checkpoint_to_restore_that_is_not_there_means_from_scratch(data_bin, tmp_path):
    for _ in range(2):  # the second one finds a checkpoint_last.pt, and says no more than the first
        result = run_command(training(data_bin, tmp_path, *STOCK, "--restore-file", "x.pt"))
        assert "No existing checkpoint found x.pt" in result.stdout
        assert "training starts from it" not in result.stdout
