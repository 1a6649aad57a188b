"""ELECTRA and BERT through fairseq-train and fairseq-hydra-train: pre-training, workers, resuming, fine-tuning."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from support.cli_runs import (
    RECIPES,
    assert_keys_are_known,
    hydra,
    largest_difference,
    logged,
    parameters,
    start_and_wait,
)
from support.commands import ELECTRA_MODEL, ELECTRA_TRAINING, PLUGIN, REPOSITORY, fairseq_train, run_command

import truneg_fairseq

# Small models are near to nothing: with threshold 0 every mistake is corrected.
EVERYTHING = (
    *("--hc-weight", 1, "--hc-detector", "embedding+context", "--hc-threshold", 0),
    *("--sr-word-weight", 1, "--sr-sent-weight", 1, "--softmax-temperature", 1.5, "--soft-targets", "table=0.1"),
    *("--discriminator-false-negatives", "ignore", "--tokenization", "wordpiece"),
)
RATES = (
    *("loss", "objective", "gen_loss", "gen_accuracy", "disc_loss", "disc_accuracy", "disc_precision", "disc_recall"),
    *("replaced", "disc_fn", "hc_pred", "hc_iter", "hc_acceptance", "sr", "kl"),
)


def pretraining(data: Path, save: Path, *arguments: object) -> list[object]:
    logging = ("--log-format", "json", "--log-interval", 1, "--no-epoch-checkpoints", "--data-buffer-size", 0)
    training = (*ELECTRA_TRAINING, "--warmup-updates", 4, "--total-num-update", 100, "--lr", 0.005, *logging)
    return fairseq_train(data, "--user-dir", PLUGIN, *training, *ELECTRA_MODEL, "--save-dir", save, *arguments)


@pytest.mark.slow
def test_it_trains_with_every_objective_and_resumes_bit_identically_after_sigkill(data_bin, tmp_path):
    options = (*EVERYTHING, "--save-interval-updates", 40)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    first = run_command(pretraining(data_bin, whole, *options, "--max-update", 60))
    steps, valid = logged(first.stdout, "train_inner"), logged(first.stdout, "valid")
    assert len(steps) == 60
    assert all(math.isfinite(float(step[rate])) for step in steps for rate in RATES)
    assert {f"valid_{rate}" for rate in RATES} <= valid[-1].keys()
    assert 0 < max(float(step["hc_acceptance"]) for step in steps) < 100
    for loss in ("gen_loss", "disc_loss"):  # a batch alone is too few tokens to tell
        values = [float(step[loss]) for step in steps]
        assert statistics.mean(values[-20:]) < statistics.mean(values[:5]), loss
    quiet = (*options, "--disable-validation")
    endless = pretraining(data_bin, broken, *quiet, "--max-update", 100_000)
    process = start_and_wait(endless, tmp_path / "log", '"num_updates": "43"')
    process.kill()
    process.wait()
    resumed = run_command(pretraining(data_bin, broken, *quiet, "--max-update", 60))
    assert 0 < int(re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ (\d+) updates\)", resumed.stdout).group(1)) < 60
    assert largest_difference(parameters(whole / "checkpoint_last.pt"), parameters(broken / "checkpoint_last.pt")) == 0


EMBEDDING = (
    "+model.embedding_dim=16 +model.generator_layers=1 +model.generator_embed_dim=24 "
    "+model.generator_ffn_embed_dim=32 +model.generator_attention_heads=2"
)


@pytest.mark.parametrize(
    ("recipe", "objective", "rates"),
    [
        ("electra_tiny", "baseline", {"disc_loss"}),
        ("electra_small", "hc_embeddings", {"hc_pred", "disc_fn"}),
        ("bert_base", "sr_sent", {"kl"}),
        ("bert_large", "[hc,sr_word]", {"hc_pred", "sr"}),
    ],
)
def test_recipes_train_with_hydra(recipe, objective, rates, data_bin, tmp_path):
    """Each set-up and each objective once; in bf16 where the recipe says so."""
    options = ["optimization.max_update=2"]
    if objective == "hc_embeddings":
        options.append(f"criterion.synonym_table={data_bin}/synonyms.npz")
    if "hc" in objective:
        options.append("+criterion.tokenization=wordpiece")
    if recipe.endswith(("base", "large")):
        options.append("checkpoint.finetune_from_model=null")
    if recipe != "electra_tiny":
        options.append("lr_scheduler.warmup_updates=1")
    embedding = EMBEDDING if recipe.startswith("electra") else "+model.embedding_dim=16"
    command = hydra(data_bin, tmp_path, objective, *options, recipe=recipe, embedding=embedding)
    result = run_command(command, cwd=tmp_path)
    output = result.stdout + result.stderr
    steps = [json.loads(line) for line in re.findall(r"\[train_inner\]\[INFO\] - (\{.*\})", output)]
    assert len(steps) == 2
    assert rates | {"loss"} <= steps[-1].keys()
    assert all(math.isfinite(float(step["loss"])) for step in steps)
    assert (tmp_path / "checkpoint_last.pt").exists()


@pytest.mark.parametrize("objective", sorted(path.stem for path in RECIPES.glob("objective/*.yaml")))
@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_recipes_say_only_what_fairseq_knows(name, objective):
    truneg_fairseq.register()
    from fairseq.models import ARCH_MODEL_REGISTRY

    with initialize_config_dir(str(RECIPES), version_base="1.1"):  # which fairseq has; another would stay for good
        recipe = OmegaConf.to_container(compose(name, [f"objective={objective}"]))
    first = yaml.safe_load((RECIPES / f"{name}.yaml").read_text())["defaults"][0]
    assert first == "_self_", "fairseq's defaults would override the rest"
    model = recipe.pop("model")["_name"]
    assert model in ARCH_MODEL_REGISTRY or model == "roberta"
    assert_keys_are_known(recipe)


OVERRIDE = re.compile(r"\+criterion\.(\w+)=(\S+?)`?(?= |$|`)")


def test_the_recipes_page_names_options_that_exist():
    from truneg_fairseq.objectives import ElectraOptions

    page = (REPOSITORY / "user_dir_examples" / "README.md").read_text()
    rows = page.partition("| objective | overrides |")[2].partition("\n\n")[0]
    found = [(1.0 if "objective=hc" in row else 0.0, OVERRIDE.findall(row)) for row in rows.splitlines()[2:]]
    assert len(found) >= 7
    for weight, overrides in found:
        defaults = {name: ElectraOptions.__dataclass_fields__[name].default for name, _ in overrides}
        # hydra takes a text with "=" in quotes of its own, within the shell's.
        values = {name: float(value) if defaults[name] == 0 else value.strip("\"'") for name, value in overrides}
        ElectraOptions(**{"hc_weight": weight, **values}).check()
