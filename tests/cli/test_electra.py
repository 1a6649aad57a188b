"""ELECTRA and BERT through fairseq-train and fairseq-hydra-train: pre-training, workers, resuming, fine-tuning."""

from __future__ import annotations

import json
import math
import re

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from support.cli_runs import RECIPES, assert_keys_are_known, hydra
from support.commands import REPOSITORY, run_command

import truneg_fairseq

RATES = "objective gen_loss gen_accuracy disc_loss disc_accuracy disc_precision disc_recall replaced".split()
EMBEDDING = (
    "+model.embedding_dim=16 +model.generator_layers=1 +model.generator_embed_dim=24 "
    "+model.generator_ffn_embed_dim=32 +model.generator_attention_heads=2"
)


@pytest.mark.parametrize(
    ("recipe", "objective", "rates"),
    [
        ("electra_tiny", "baseline", {"disc_loss"}),
        ("electra_small", "hc_embeddings", {*RATES, "hc_pred", "hc_iter", "disc_fn"}),
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
