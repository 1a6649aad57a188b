"""--preset: options that are set together, through real fairseq objects and the real command."""

from __future__ import annotations

import shutil

import pytest
import torch
from support.cli_runs import hydra
from support.commands import run_command
from support.trainings import assert_same_steps, steps

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.hf import TrueNegativeArguments
from truneg_fairseq.objective_factory import with_preset
from truneg_fairseq.synonyms import SynonymTable

pytest.importorskip("lemminflect", reason="the source inflected needs the package lemminflect")

CRITERION = ("--criterion", "masked_lm_true_neg", "--tokenization", "wordpiece")
PRESET = ("--preset", "inflected-synonyms")
ITS_FLAGS = ("--target-smoothing", "synonyms", "--synonym-source", "inflected")


@pytest.fixture(scope="module")
def data(data_bin, tmp_path_factory):
    """Data that have been trained on with WordNet's table."""
    return shutil.copytree(data_bin, tmp_path_factory.mktemp("preset") / "data-bin")


def test_the_preset_is_its_flags(data):
    every_synonym = ("--target-smoothing-threshold", -1)  # random embeddings are near nothing
    recommended = steps(data, 2, *CRITERION, *PRESET, *every_synonym)
    assert_same_steps(recommended, steps(data, 2, *CRITERION, *ITS_FLAGS, *every_synonym))
    _, stock = steps(data, 2, "--criterion", "masked_lm")
    assert any(not torch.equal(recommended[1][name], value) for name, value in stock.items())


@pytest.mark.slow
def test_the_override_of_the_recipes_page_trains_with_hydra(data_bin, tmp_path):
    own = shutil.copytree(data_bin, tmp_path / "data-bin")
    (own / "synonyms.npz").unlink()
    overrides = ("++criterion.hc_weight=0", "+criterion.preset=inflected-synonyms", "+criterion.tokenization=wordpiece")
    run_command(hydra(own, tmp_path, "hc", *overrides, "optimization.max_update=2"), cwd=tmp_path)
    assert SynonymTable.load(own / "synonyms.inflected.npz").source == "inflected"


def test_in_transformers():
    arguments = with_preset(TrueNegativeArguments(preset="inflected-synonyms", hc_weight=1.0))
    assert (arguments.target_smoothing, arguments.synonym_source, arguments.hc_weight) == ("synonyms", "inflected", 1.0)
    with pytest.raises(TrueNegError, match="--target-smoothing self: excludes --preset recommended"):
        with_preset(TrueNegativeArguments(preset="recommended", target_smoothing="self"))
