"""What transformers' Trainer promises holds for TrueNegativeTrainer as well."""

from __future__ import annotations

import inspect
import math
import sys

import numpy as np
import pytest
import torch
from support.hf_models import (
    LINES,
    ROWS,
    Calls,
    assert_same,
    electra_halves,
    losses,
    masked_batch,
    rows_of,
    small_model,
    small_tokenizer,
    trainer,
    weights,
)

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

from transformers.trainer_utils import default_compute_objective  # noqa: E402

from truneg_fairseq.errors import TrueNegError  # noqa: E402
from truneg_fairseq.hf import ElectraArguments, ElectraForReplacedTokens  # noqa: E402

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
    model = ElectraForReplacedTokens.of(*electra_halves()) if electra else None
    machine = make(model, data_collator=None, true_negatives=ElectraArguments() if electra else None)
    machine.train()
    assert max(losses(machine)) > 0
    assert machine.data_collator.mlm_probability == 0.15


def test_metrics_of_the_user_keep_their_names(make):
    own = {"accuracy": 0.5, "hc_pred": 1, "mlm_loss": 2.0, "eval_hc_iter": 3, "mine": np.float32(5)}
    found = make(compute_metrics=lambda _: dict(own)).evaluate()
    for name, value in own.items():
        assert found[f"eval_{name.removeprefix('eval_')}"] == value, name


@pytest.mark.parametrize("per_batch", [False, True])
def test_compute_metrics_gets_logits_labels_inputs_and_losses(make, per_batch):
    seen = []

    def compute(found, compute_result=True):
        assert found.inputs is not None and found.losses is not None
        seen.append((found.predictions.shape, found.label_ids.shape))
        return {"seen": len(seen)}

    settings = {"per_device_eval_batch_size": 2, "batch_eval_metrics": per_batch}
    found = make(**settings, include_for_metrics=["inputs", "loss"], compute_metrics=compute).evaluate()
    assert found["eval_seen"] == (2 if per_batch else 1)
    assert all(logits == (*labels, ROWS) for logits, labels in seen)
    if not per_batch:
        assert seen[0][1] == (3, max(len(row["input_ids"]) for row in rows_of(*LINES)))


def test_predictions_with_and_without_labels(make):
    prepared = lambda logits, labels: logits.argmax(-1)  # noqa: E731
    found = make(label_names=["labels"], preprocess_logits_for_metrics=prepared).predict(rows_of(*LINES))
    assert found.predictions.shape == found.label_ids.shape
    assert (found.label_ids != -100).any()
    assert found.metrics["test_loss"] > 0
    texts = [{**row, "attention_mask": [1] * len(row["input_ids"])} for row in rows_of("a mat", "the cat")]
    found = make(data_collator=transformers.DataCollatorWithPadding(small_tokenizer())).predict(texts)
    assert found.predictions.shape[::2] == (2, ROWS)
    assert found.label_ids is None
    assert "test_loss" not in found.metrics


def test_callbacks_hear_every_event_in_order_and_evaluations_leave_the_training_alone(make):
    calls = Calls()
    settings = {"include_num_input_tokens_seen": "non_padding", "gradient_checkpointing": True}
    machine = make(**BY_STEPS, save_steps=2, **settings, callbacks=[calls])
    machine.train()
    update = ["on_step_end", "on_log", "on_prediction_step", "on_log", "on_evaluate"]
    events = [event for event in calls.events if event in (*update, "on_save")]
    assert events == [*update, *update, "on_save", "on_log"]
    log = machine.state.log_history[0]
    assert log["num_input_tokens_seen"] > 0 and log["grad_norm"] > 0
    alone = make()
    alone.train()
    assert losses(alone) == losses(machine)
    assert machine.evaluate()["eval_loss"] == machine.evaluate()["eval_loss"]


@pytest.mark.parametrize("own", [{}, {"accuracy": 0.25, "mine": 0.5}], ids=["loss", "metrics"])
def test_the_default_objective_of_a_search_is_the_loss_or_the_sum_of_the_users_metrics(own, make):
    machine = make(compute_metrics=(lambda found: dict(own)) if own else None)
    machine.train()  # an evaluation before has the time to prepare the model too
    machine.hp_search_backend, machine.compute_objective = "optuna", default_compute_objective
    found = machine.evaluate()
    assert default_compute_objective(found) == pytest.approx(sum(own.values()) or found["eval_loss"])


@pytest.mark.slow
def test_a_batch_size_that_fits_is_found(make):
    """What the broken-off attempts counted is not logged: the loss is that of the updates since."""
    model, calls = small_model(), []

    def run_out_of_memory(module, given, options):
        calls.append(len(options["input_ids"]))
        if len(calls) > 1 and calls[-1] > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate.")

    model.bert.embeddings.register_forward_pre_hook(run_out_of_memory, with_kwargs=True)
    settings = {"max_steps": 3, "logging_steps": 3, "learning_rate": 0.0}
    machine = make(model, **settings, per_device_train_batch_size=4, auto_find_batch_size=True)
    machine.train()
    assert machine.state.train_batch_size == 2
    fresh = make(**settings)
    fresh.train()
    assert machine.state.log_history[0]["mlm_loss"] == pytest.approx(fresh.state.log_history[0]["mlm_loss"], rel=1e-6)


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


def test_the_training_loss_is_the_mean_of_the_updates(make):
    """Also where an evaluation on the training texts has the prefix of the training, and the user logs a loss."""
    machine = make(max_steps=3)

    def before(**_):
        machine.evaluate(TEXTS, metric_key_prefix="train")
        machine.log({"loss": 1.0, "mine": 2.0})

    machine.add_callback(Calls(on_step_begin=before))
    result = machine.train()
    logs = [log for log in machine.state.log_history if "loss" in log]
    own, users = [log for log in logs if "mine" not in log], [log for log in logs if "mine" in log]
    assert result.training_loss == pytest.approx(np.mean([log["loss"] for log in own]), rel=1e-6)
    assert result.metrics["train_loss"] == machine.state.log_history[-1]["train_loss"] == result.training_loss
    evaluated = [log["train_loss"] for log in machine.state.log_history if "train_samples_per_second" in log]
    assert len(set(evaluated)) == 4
    assert all(log.keys() >= RATES for log in own) and not any(RATES & log.keys() for log in users)
    assert (len(own), len(users)) == (3, 3)


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


@pytest.mark.parametrize("precision", ["bf16_full_eval", "fp16_full_eval"])
def test_an_evaluation_in_half_precision_leaves_the_model_as_it_is(precision, make):
    """The stock Trainer casts it in place."""
    machine = make(**{precision: True})
    before, half = weights(machine), []
    machine.model.register_forward_hook(lambda module, given, output: half.append(output.logits.dtype))
    assert machine.evaluate()["eval_loss"] > 0
    assert half[0] == (torch.bfloat16 if precision.startswith("b") else torch.float16)
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


def test_no_attribute_of_trainers_is_taken(make, tmp_path):
    source = inspect.getsource(transformers.Trainer) + "".join(
        inspect.getsource(sys.modules[f"transformers.{name}"]) for name in ("trainer_callback", "trainer_utils")
    )
    electra = trainer(ElectraForReplacedTokens.of(*electra_halves()), tmp_path, ElectraArguments())
    stock = {*vars(make(kind=transformers.Trainer)), *dir(transformers.Trainer)}
    for machine in (make(), electra):
        for name in {*vars(machine), *dir(type(machine))} - stock:
            assert f"self.{name} " not in source and f"trainer.{name} " not in source, name
