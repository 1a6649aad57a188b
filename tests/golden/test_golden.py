"""Losses, counts and gradients of 15 objectives through five front ends, as of commit
f79ecf053f9e7a5d7e9120660234414dbfbdbb78.

What a clean-up must not change. ``PYTHONPATH=tests python tests/golden/test_golden.py`` writes the values anew, for a
repair that changes them; name it in the commit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import transformers
from support.commands import ELECTRA_MODEL, ELECTRA_TRAINING, PLUGIN, TINY_MODEL, TINY_TRAINING
from support.hf_models import trainer
from support.trainings import make, parse
from torch import nn

from truneg_fairseq import hf
from truneg_fairseq.objectives import sample_tokens

HERE = Path(__file__).parent
VALUES = HERE / "values.json"
DATA = HERE / "data-bin"  # binarized WordPiece
TABLE, COUNTS = "half.npz", "counts.npz"  # half of all pairs are synonyms: an untrained model has corrections

OBJECTIVES: dict[str, dict[str, Any]] = {
    "plain": {},
    "hc": {"hc_weight": 1.0},
    "hc half": {"hc_weight": 0.5},
    "hc by embeddings": {"hc_weight": 1.0, "hc_detector": "table+embedding", "hc_threshold": 0.01},
    "sr-word": {"sr_word_weight": 1.0},
    "sr-word expected": {"sr_word_weight": 1.0, "sr_word_form": "expected"},
    "sr-sent": {"sr_sent_weight": 1.0},
    "temperature": {"hc_weight": 1.0, "softmax_temperature": 1.5},
    "truncation": {"loss_truncation": 0.1},
    "uniform": {"soft_targets": "uniform=0.1"},
    "synonym": {"soft_targets": "table=0.1"},
    "corpus": {"soft_targets": "corpus=0.1"},
    "nearest": {"soft_targets": "embedding=0.1"},
    "corpus and nearest": {"soft_targets": "corpus=0.1,embedding=0.1"},
    "all": {"hc_weight": 1.0, "sr_word_weight": 0.5, "sr_sent_weight": 2.0, "soft_targets": "uniform=0.05"},
}
OF_ELECTRA = {
    "ignore": {"hc_weight": 1.0, "discriminator_false_negatives": "ignore"},
    "relabel": {"sr_word_weight": 1.0, "discriminator_false_negatives": "relabel"},
}
# A model that generates has no masks: what needs them is left out.
GENERATED = [
    *("plain", "hc", "hc half", "sr-word", "sr-word expected", "truncation", "uniform", "synonym", "corpus"),
]
NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)
FRONT_ENDS: dict[str, Sequence[object]] = {
    "masked_lm": (*TINY_TRAINING, *TINY_MODEL, *NO_DROPOUT, "--criterion", "masked_lm_true_neg"),
    "electra": (*ELECTRA_TRAINING, *ELECTRA_MODEL, "--generator-layers", 1),
    "label_smoothed": """
--task language_modeling --sample-break-mode none --tokens-per-sample 24 --arch transformer_lm --decoder-layers 2
--decoder-embed-dim 32 --decoder-ffn-embed-dim 48 --decoder-attention-heads 4 --share-decoder-input-output-embed
--dropout 0 --criterion label_smoothed_true_neg --optimizer adam --lr 0.01 --batch-size 8 --seed 1 --cpu
""".split(),
}


def files(options: dict[str, Any], table: str, counts: str) -> dict[str, str]:
    """The files that an objective reads."""
    needed, soft = {"hc_weight", "discriminator_false_negatives"} & options.keys(), options.get("soft_targets", "")
    given = {"synonym_table": str(HERE / table)} if needed or "table" in soft else {}
    return {**given, **({"corpus_counts": str(HERE / counts)} if "corpus" in soft else {})}


def in_fairseq(front_end: str, options: dict[str, Any]) -> dict[str, float]:
    if front_end == "label_smoothed":  # whose own options say the same
        own = {"uniform=0.1": {"label_smoothing": 0.1}, "table=0.1": {"soft_targets": "table:flat=0.1"}}
        options = own.get(options.get("soft_targets", ""), options)
    configuration = parse([DATA, "--user-dir", PLUGIN, *FRONT_ENDS[front_end]])
    configuration.criterion.update({**options, **files(options, TABLE, COUNTS)})
    task, model, criterion = make(configuration)
    task.load_dataset("train")
    dataset = task.dataset("train")
    dataset.set_epoch(1)
    batch = dataset.collater([dataset[index] for index in range(8)])
    torch.manual_seed(2)
    model.train()
    criterion.train()
    loss, sample_size, logged = criterion(model, batch)
    loss.backward()
    counts = {f"logged {name}": float(value) for name, value in logged.items() if name != "nll_loss"}
    return {"loss": float(loss), "sample size": float(sample_size), "gradient": gradient(model), **counts}


def gradient(model: nn.Module) -> float:
    """The norm of all gradients, in fp64."""
    squares = [parameter.grad.double().square().sum() for parameter in model.parameters() if parameter.grad is not None]
    return math.sqrt(float(torch.stack(squares).sum()))


def in_transformers(front_end: str, options: dict[str, Any]) -> dict[str, float]:
    tokenizer = transformers.BertTokenizerFast(vocab=str(DATA / "vocab.txt"))
    sizes = {
        **{"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
        **{"intermediate_size": 48, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    }
    torch.manual_seed(1)
    words = torch.randint(5, len(tokenizer), (8, 24))
    words[:, 0], words[:, 20:] = tokenizer.cls_token_id, tokenizer.sep_token_id
    words[1::2, 21:] = tokenizer.pad_token_id
    masked = torch.rand(words.shape).lt(0.3) & words.ge(5)
    inputs = {
        "input_ids": words.masked_fill(masked, tokenizer.mask_token_id),
        "attention_mask": words.ne(tokenizer.pad_token_id).long(),
        "labels": words.masked_fill(~masked, -100),
    }
    torch.manual_seed(2)
    given = {**options, **files(options, f"hf_{TABLE}", f"hf_{COUNTS}")}
    arguments: Any = hf.TrueNegativeArguments(**given) if front_end == "transformers" else hf.ElectraArguments(**given)
    if front_end == "transformers":
        model: Any = transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
    else:
        small = {**sizes, "hidden_size": 24, "intermediate_size": 32}
        model = hf.ElectraForReplacedTokens.of(
            transformers.ElectraForPreTraining(transformers.ElectraConfig(embedding_size=16, **sizes)),
            transformers.ElectraForMaskedLM(transformers.ElectraConfig(embedding_size=16, **small)),
        )
    machine = trainer(model, Path("unused"), arguments, processing_class=tokenizer)
    torch.manual_seed(3)
    model.train()
    # The values are from torch's own generator; the samples of a training follow from their place in it.
    with patch("truneg_fairseq.hf.electra_trainer.sample_tokens", lambda logits, _: sample_tokens(logits)):
        loss = machine.compute_loss(model, inputs, num_items_in_batch=masked.sum())
    loss.backward()
    counts = {f"logged {name}": float(value) for name, value in machine.sums(True).items()}
    return {"loss": float(loss), "gradient": gradient(model), **counts}


RUNS: dict[str, tuple[Callable[[str, dict[str, Any]], dict[str, float]], dict[str, dict[str, Any]]]] = {
    "masked_lm": (in_fairseq, OBJECTIVES),
    "electra": (in_fairseq, {**OBJECTIVES, **OF_ELECTRA}),
    "label_smoothed": (in_fairseq, {name: OBJECTIVES[name] for name in GENERATED}),
    "transformers": (in_transformers, OBJECTIVES),
    "transformers_electra": (in_transformers, {**OBJECTIVES, **OF_ELECTRA}),
}


@pytest.mark.parametrize(
    ("front_end", "name"), [(front_end, name) for front_end, (_, objectives) in RUNS.items() for name in objectives]
)
def test_the_objective_is_what_it_was(front_end: str, name: str) -> None:
    compute, objectives = RUNS[front_end]
    expected = json.loads(VALUES.read_text())[front_end][name]
    found = compute(front_end, objectives[name])
    # Names of what is logged may change, and sums may be added; CPUs differ in the last digits.
    assert {key: found[key] for key in expected if key in found} == pytest.approx(
        {key: value for key, value in expected.items() if key in found}, rel=2e-5, abs=1e-6
    )
    assert {"loss", "gradient"} <= found.keys() & expected.keys()


def write() -> None:
    values = {
        front_end: {name: compute(front_end, options) for name, options in objectives.items()}
        for front_end, (compute, objectives) in RUNS.items()
    }
    VALUES.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    write()
