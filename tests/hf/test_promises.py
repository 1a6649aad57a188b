"""What transformers' Trainer promises holds for TrueNegativeTrainer as well."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import transformers
from support.hf_models import (
    LINES,
    ROWS,
    Calls,
    assert_same,
    losses,
    masked_batch,
    rows_of,
    small_electra,
    small_model,
    small_tokenizer,
    trainer,
    weights,
)
from transformers.trainer_utils import default_compute_objective

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.hf import ElectraArguments

TEXTS = rows_of(*LINES, "a mat", "the dog and the cat ran", "it saw a big mat")
RATES = {"mlm_loss", "accuracy"}
BY_STEPS = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps"}


@pytest.fixture
def make(tmp_path):
    """Makes a trainer of a tiny BERT on six texts, whose masks depend on the text alone."""

    def make(model=None, **others):
        model = model or (None if "model_init" in others else small_model())
        defaults = {"max_steps": 2, "learning_rate": 1e-2, "data_collator": masked_batch, "train_dataset": TEXTS}
        return trainer(model, tmp_path, **{**defaults, **others})

    return make


def test_the_best_model_is_there_at_the_end(make):
    """By a metric of the user's that has the name of one of ours."""
    scores, seen = iter([0.2, 0.9, 0.5]), []
    best = {"load_best_model_at_end": True, "metric_for_best_model": "accuracy", "greater_is_better": True}
    machine = make(max_steps=3, **BY_STEPS, save_steps=1, **best, compute_metrics=lambda _: {"accuracy": next(scores)})
    machine.add_callback(Calls(on_step_end=lambda **_: seen.append(weights(machine))))
    machine.train()
    assert machine.state.best_metric == 0.9
    assert machine.state.best_model_checkpoint.endswith("checkpoint-2")
    assert_same(weights(machine), seen[1], rtol=0, atol=0)


@pytest.mark.parametrize("electra", [False, True], ids=["masked LM", "ELECTRA"])
def test_without_a_collator_the_trainer_takes_its_own(electra, make):
    """As the stock Trainer pads by its tokenizer; ours masks too."""
    model = small_electra() if electra else None
    machine = make(model, data_collator=None, true_negatives=ElectraArguments() if electra else None)
    machine.train()
    assert max(losses(machine)) > 0
    assert machine.data_collator.mlm_probability == 0.15
    rows = [{**row, "labels": row["input_ids"]} for row in TEXTS]
    with pytest.raises(TrueNegError, match="labels: found in the data, which would be masked once more; expected data"):
        make(model, data_collator=None, true_negatives=machine.true_negatives, train_dataset=rows).train()


def test_metrics_of_the_user_keep_their_names(make):
    own = {"accuracy": 0.5, "hc_pred": 1, "mlm_loss": 2.0, "eval_hc_iter": 3, "mine": np.float32(5)}
    found = make(compute_metrics=lambda _: dict(own)).evaluate()
    for name, value in own.items():
        assert found[f"eval_{name.removeprefix('eval_')}"] == value, name


def test_compute_metrics_gets_the_logits_of_every_position_labels_inputs_and_losses(make):
    seen = []

    def compute(found):
        seen.append((found.predictions.shape, found.label_ids.shape, found.inputs.shape, len(found.losses)))
        return {"seen": 1.0}

    given = {"include_for_metrics": ["inputs", "loss"], "compute_metrics": compute}
    assert make(**given, per_device_eval_batch_size=2).evaluate()["eval_seen"] == 1
    longest = max(len(row["input_ids"]) for row in rows_of(*LINES))
    assert seen == [((3, longest, ROWS), (3, longest), (3, longest), 3)]


def test_callbacks_tokens_and_metrics_are_those_of_the_stock_trainer(make):
    """The order of the events, the tokens that were read, and what the user makes of the logits."""
    found = []
    for kind in (None, transformers.Trainer):
        shapes, calls = [], Calls()

        def chosen(logits, labels, shapes=shapes):
            shapes.append((logits.shape, labels.shape))
            return logits.argmax(-1)

        machine = make(
            kind=kind,
            **BY_STEPS,
            save_steps=1,
            include_num_input_tokens_seen="non_padding",
            preprocess_logits_for_metrics=chosen,
            compute_metrics=lambda given: {"sum": float(given.predictions.sum())},
        )
        machine.add_callback(calls)
        machine.train()
        sums = [log["eval_sum"] for log in machine.state.log_history if "eval_sum" in log]
        found.append((calls.events, shapes, machine.state.num_input_tokens_seen, sums))
    assert found[0] == found[1]
    assert found[0][2] > 0 and len(found[0][3]) == 2


def test_predictions_with_and_without_labels(make):
    found = make(label_names=["labels"]).predict(rows_of(*LINES))
    assert found.predictions.shape[:2] == found.label_ids.shape
    assert (found.label_ids != -100).any() and found.metrics["test_loss"] > 0
    found = make(data_collator=transformers.DataCollatorWithPadding(small_tokenizer())).predict(rows_of("a mat", "cat"))
    assert found.predictions.shape[::2] == (2, ROWS)
    assert found.label_ids is None and "test_loss" not in found.metrics


@pytest.mark.parametrize("electra", [False, True], ids=["masked LM", "ELECTRA"])
def test_evaluations_and_saves_leave_the_training_alone(electra, make):
    """ELECTRA's samples are those of an unbroken run too."""
    given = {"true_negatives": ElectraArguments()} if electra else {}
    models = [small_electra() if electra else small_model() for _ in range(2)]
    machine = make(models[0], **given, **BY_STEPS, save_steps=2, gradient_checkpointing=not electra)
    alone = make(models[1], **given)
    for each in (machine, alone):
        each.train()
    assert losses(alone) == losses(machine)
    assert machine.evaluate()["eval_loss"] == machine.evaluate()["eval_loss"]


@pytest.mark.parametrize("own", [{}, {"accuracy": 0.25, "mine": 0.5}], ids=["loss", "metrics"])
def test_the_default_objective_of_a_search_is_the_loss_or_the_sum_of_the_users_metrics(own, make):
    machine = make(compute_metrics=(lambda found: dict(own)) if own else None)
    machine.train()  # an evaluation before has the time to prepare the model too
    machine.hp_search_backend, machine.compute_objective = "optuna", default_compute_objective
    found = machine.evaluate()
    assert default_compute_objective(found) == pytest.approx(sum(own.values()) or found["eval_loss"])


def test_what_a_broken_off_training_counted_is_not_logged(make):
    """As Ctrl-C leaves it, or an attempt with a larger batch."""
    fresh, machine = (make(max_steps=1, learning_rate=0.0) for _ in range(2))
    machine._counts[True] = {"loss": torch.tensor(1000.0), "sample_size": torch.tensor(1.0)}
    for each in (fresh, machine):
        each.train()
    assert machine.state.log_history[0]["mlm_loss"] == fresh.state.log_history[0]["mlm_loss"]


@pytest.mark.parametrize("filtered", [True, False])
def test_a_loss_that_is_not_finite_is_filtered_where_it_is_asked_for(make, filtered):
    model, calls = small_model(), []

    def spoil(module, given, output):
        calls.append(0)
        return output * math.nan if len(calls) == 3 else output

    model.cls.predictions.decoder.register_forward_hook(spoil)
    machine = make(model, max_steps=3, logging_steps=3, logging_nan_inf_filter=filtered, learning_rate=0.0)
    machine.add_callback(Calls(on_pre_optimizer_step=lambda model, **_: model.zero_grad()))  # nothing changes
    machine.train()
    log = machine.state.log_history[0]
    assert math.isfinite(log["loss"]) == filtered
    assert ("mlm_loss" in log and math.isfinite(log["mlm_loss"])) == filtered
    calls.clear()
    machine.args.per_device_eval_batch_size = 1
    assert math.isfinite(machine.evaluate()["eval_loss"]) == filtered


def test_a_loss_of_no_masked_tokens_is_never_the_best(make, caplog):
    found = make(eval_dataset=rows_of("the red house")).evaluate()
    assert math.isnan(found["eval_loss"])
    assert any("eval: no token is masked" in message for message in caplog.messages)


def test_a_new_model_for_each_training(make):
    """Each projects the masked positions alone."""
    seen = []

    def model_init():
        model = small_model()
        model.get_output_embeddings().register_forward_hook(lambda module, given, logits: seen.append(logits.dim()))
        return model

    machine = make(model_init=model_init)
    machine.train()
    first = weights(machine)
    machine.train()
    assert seen == [2] * 4, "(N, V), not (B, T, V)"
    assert_same(weights(machine), first, rtol=0, atol=0)


def test_an_evaluation_in_half_precision_leaves_the_model_as_it_is(make):
    """The stock Trainer casts it in place."""
    machine = make(bf16_full_eval=True)
    machine.model.register_buffer("own", torch.rand(3))
    before, half = weights(machine), []
    machine.model.register_forward_hook(lambda module, given, output: half.append(output.logits.dtype))
    assert machine.evaluate()["eval_loss"] > 0
    assert half[0] == torch.bfloat16
    assert_same(weights(machine), before, rtol=0, atol=0)
    assert machine.model.get_output_embeddings().weight is machine.model.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"label_smoothing_factor": 0.1}, r"label_smoothing_factor 0.1: expected 0; use soft_targets='uniform=..."),
        ({"compute_loss_func": lambda *_, **__: 0}, "compute_loss_func: expected none"),
        ({"label_names": ["targets"]}, r"label_names \['targets'\]: expected 'labels' too"),
        ("get_tp_size", "sequence parallelism, expected data parallelism alone"),
        ("get_cp_size", "sequence parallelism, expected data parallelism alone"),
    ],
)
def test_what_would_have_no_effect_is_refused(given, line, make, monkeypatch):
    if isinstance(given, str):
        monkeypatch.setattr(transformers.Trainer, given, lambda self: 2)
        given = {}
    with pytest.raises(TrueNegError, match=line):
        make(**given)
