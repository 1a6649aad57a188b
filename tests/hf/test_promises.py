"""What transformers' Trainer promises holds for TrueNegativeTrainer as well."""

from __future__ import annotations

import inspect
import math
import sys

import numpy as np
import pytest
import torch
from support.hf_models import LINES, ROWS, electra_halves, masked_batch, small_model, small_tokenizer, stop_at

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

from truneg_fairseq.errors import TrueNegError  # noqa: E402
from truneg_fairseq.hf import (  # noqa: E402
    ElectraArguments,
    ElectraForReplacedTokens,
    ElectraTrainer,
    TrueNegativeTrainer,
)

TEXTS = [*LINES, "a mat", "the dog and the cat ran", "it saw a big mat"]
RATES = {"mlm_loss", "accuracy"}


def rows(texts=TEXTS):
    return [{"input_ids": small_tokenizer()(text)["input_ids"]} for text in texts]


def build(folder, settings, *, model=None, kind=TrueNegativeTrainer, **others):
    """A trainer of a tiny BERT on six texts, whose masks depend on the text alone."""
    defaults = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "max_steps": 2}
    defaults |= {"per_device_train_batch_size": 2, "logging_steps": 1, "learning_rate": 1e-2}
    if model is None and "model_init" not in others:
        model = small_model("BertForMaskedLM")
    others = {"train_dataset": rows(), "eval_dataset": rows(LINES), "data_collator": masked_batch, **others}
    arguments = transformers.TrainingArguments(str(folder / "out"), **{**defaults, **settings})
    return kind(model, arguments, processing_class=small_tokenizer(), **others)


@pytest.fixture
def make(tmp_path):
    return lambda settings=None, **others: build(tmp_path, settings or {}, **others)


class Calls(transformers.TrainerCallback):
    """Notes its events, and does before and at the end of an update what it is asked to."""

    def __init__(self, then=None, before=None):
        self.then, self.before, self.events = then, before, []

    def on_step_begin(self, args, state, control, **others):
        if self.before is not None:
            self.before()

    def on_step_end(self, args, state, control, **others):
        self.events.append("step")
        if self.then is not None:
            self.then(state, control)

    def on_evaluate(self, args, state, control, metrics, **others):
        self.events.append("evaluate")

    def on_save(self, args, state, control, **others):
        self.events.append("save")

    def on_log(self, args, state, control, logs, **others):
        self.events.append("log" if "loss" in logs else "result")

    def on_prediction_step(self, args, state, control, **others):
        self.events.append("predict")


def weights(machine):
    return {
        name: value.detach().clone()
        for name, value in machine.accelerator.unwrap_model(machine.model).state_dict().items()
    }


def assert_same(found, expected, **tolerance):
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name, **tolerance)


def losses(machine):
    return [log["loss"] for log in machine.state.log_history if "loss" in log]


def test_the_last_update_of_an_epoch_may_be_smaller(make):
    machine = make({"gradient_accumulation_steps": 2, "max_steps": -1, "num_train_epochs": 2})
    machine.train()
    assert machine.state.global_step == 4


def test_a_run_resumed_in_mid_epoch_is_an_unbroken_one(make):
    settings = {"max_steps": 5, "save_strategy": "steps", "save_steps": 2}
    model = lambda: small_model("BertForMaskedLM", hidden_dropout_prob=0.2)  # noqa: E731
    make(settings, model=model(), callbacks=[stop_at(2)]).train()
    resumed = make(settings, model=model())
    resumed.train(resume_from_checkpoint=True)
    whole = make({"max_steps": 5}, model=model())
    whole.train()
    assert losses(resumed) == losses(whole)
    assert_same(weights(resumed), weights(whole), rtol=0, atol=0)


def test_the_best_model_is_there_at_the_end(make):
    """By a metric of the user's that has the name of one of ours."""
    scores, seen = iter([0.2, 0.9, 0.5]), []
    best = {"load_best_model_at_end": True, "metric_for_best_model": "accuracy", "greater_is_better": True}
    settings = {"max_steps": 3, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    machine = make({**settings, **best}, compute_metrics=lambda found: {"accuracy": next(scores)})
    machine.add_callback(Calls(lambda state, control: seen.append(weights(machine))))
    machine.train()
    assert machine.state.best_metric == 0.9
    assert machine.state.best_model_checkpoint.endswith("checkpoint-2")
    assert_same(weights(machine), seen[1], rtol=0, atol=0)


def test_metrics_of_the_user_keep_their_names(make):
    own = {"accuracy": 0.5, "hc_pred": 1, "mlm_loss": 2.0, "eval_hc_iter": 3, "loss": 4.0, "mine": np.float32(5)}
    found = make(compute_metrics=lambda _: dict(own)).evaluate()
    for name, value in own.items():
        assert found[f"eval_{name.removeprefix('eval_')}"] == value, name


@pytest.mark.parametrize("per_batch", [False, True])
def test_compute_metrics_gets_logits_labels_inputs_and_losses(make, per_batch):
    seen = []

    def compute(found, compute_result=True):
        seen.append((found.predictions.shape, found.label_ids.shape, found.inputs, found.losses))
        return {"seen": len(seen)}

    settings = {"per_device_eval_batch_size": 2, "batch_eval_metrics": per_batch}
    found = make({**settings, "include_for_metrics": ["inputs", "loss"]}, compute_metrics=compute).evaluate()
    assert found["eval_seen"] == (2 if per_batch else 1)
    longest = max(len(row["input_ids"]) for row in rows(LINES))
    for logits, labels, inputs, each in seen:
        assert logits == (*labels, ROWS)
        assert inputs is not None and each is not None
    if not per_batch:
        assert seen[0][1] == (3, longest)


def test_predictions_with_and_without_labels(make):
    prepared = lambda logits, labels: logits.argmax(-1)  # noqa: E731
    found = make({"label_names": ["labels"]}, preprocess_logits_for_metrics=prepared).predict(rows(LINES))
    assert found.predictions.shape == found.label_ids.shape
    assert (found.label_ids != -100).any()
    assert found.metrics["test_loss"] > 0
    texts = [{**row, "attention_mask": [1] * len(row["input_ids"])} for row in rows(["a mat", "the cat"])]
    found = make(data_collator=transformers.DataCollatorWithPadding(small_tokenizer())).predict(texts)
    assert found.predictions.shape[::2] == (2, ROWS)
    assert found.label_ids is None
    assert "test_loss" not in found.metrics


def test_callbacks_hear_every_event_in_order_and_evaluations_leave_the_training_alone(make):
    calls = Calls()
    settings = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 2}
    settings |= {"include_num_input_tokens_seen": "non_padding", "gradient_checkpointing": True}
    machine = make(settings, callbacks=[calls])
    machine.train()
    update = ["step", "log", "predict", "result", "evaluate"]
    assert calls.events == [*update, *update, "save", "result"]
    log = machine.state.log_history[0]
    assert log["num_input_tokens_seen"] > 0 and log["grad_norm"] > 0
    alone = make()
    alone.train()
    assert losses(alone) == losses(machine)
    assert machine.evaluate()["eval_loss"] == machine.evaluate()["eval_loss"]


@pytest.mark.parametrize("own", [{}, {"accuracy": 0.25, "mine": 0.5}], ids=["loss", "metrics"])
def test_the_default_objective_of_a_search_is_the_loss_or_the_sum_of_the_users_metrics(own, make, monkeypatch):
    machine, seen = make(compute_metrics=(lambda found: dict(own)) if own else None), []
    machine.train()  # an evaluation before has the time to prepare the model too
    found = machine.evaluate()
    search = lambda self, space=None, objective=None: seen.append(objective)  # noqa: E731
    monkeypatch.setattr(transformers.Trainer, "hyperparameter_search", search)
    machine.hyperparameter_search()
    expected = sum(own.values()) or found["eval_loss"]
    assert seen[0](found) == pytest.approx(expected)


def test_several_evaluation_sets(make):
    sets = {"first": rows(LINES), "second": rows(["a big mat"])}
    machine = make({"eval_strategy": "steps", "eval_steps": 1, "max_steps": 1}, eval_dataset=sets)
    machine.train()
    found = {name: log[name] for log in machine.state.log_history for name in log if name.endswith("_loss")}
    assert found["eval_first_loss"] != found["eval_second_loss"]
    assert machine.evaluate(sets["second"])["eval_loss"] > 0


@pytest.mark.slow
def test_a_batch_size_that_fits_is_found(make):
    """What the broken-off attempts counted is not logged: the loss is that of the updates since."""
    model, calls = small_model("BertForMaskedLM"), []

    def run_out_of_memory(module, given, options):
        calls.append(len(options["input_ids"]))
        if len(calls) > 1 and calls[-1] > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate.")

    model.bert.embeddings.register_forward_pre_hook(run_out_of_memory, with_kwargs=True)
    settings = {"per_device_train_batch_size": 4, "auto_find_batch_size": True, "max_steps": 3, "logging_steps": 3}
    machine = make({**settings, "learning_rate": 0.0}, model=model)
    machine.train()
    assert machine.state.train_batch_size == 2
    fresh = make({**settings, "learning_rate": 0.0, "per_device_train_batch_size": 2})
    fresh.train()
    assert machine.state.log_history[0]["mlm_loss"] == pytest.approx(fresh.state.log_history[0]["mlm_loss"], rel=1e-6)


def test_a_training_after_one_that_was_interrupted_counts_from_0(make):
    def interrupt(state, control):
        raise KeyboardInterrupt

    machine = make({"max_steps": 1, "logging_steps": 2, "learning_rate": 0.0})
    calls = Calls(interrupt)
    machine.add_callback(calls)
    with pytest.raises(KeyboardInterrupt):
        machine.train()
    calls.then = None
    machine.args.logging_steps = machine.state.logging_steps = 1
    machine.train()
    log = machine.state.log_history[0]
    assert log["mlm_loss"] == pytest.approx(log["loss"], rel=1e-5)
    assert log["loss"] > 0


class Stream(torch.utils.data.IterableDataset):
    """Texts without a length."""

    def __iter__(self):
        yield from rows() * 2


def test_data_without_a_length(make):
    machine = make({"max_steps": 4}, train_dataset=Stream(), eval_dataset=Stream())
    machine.train()
    assert machine.state.global_step == 4
    assert machine.evaluate()["eval_loss"] > 0


@pytest.mark.parametrize("filtered", [True, False])
def test_a_loss_that_is_not_finite_is_filtered_where_it_is_asked_for(make, filtered):
    model, calls = small_model("BertForMaskedLM"), []

    def spoil(module, given, output):
        calls.append(0)
        return output * math.nan if len(calls) == 3 else output

    model.cls.predictions.decoder.register_forward_hook(spoil)
    machine = make(
        {"max_steps": 3, "logging_steps": 3, "logging_nan_inf_filter": filtered, "learning_rate": 0.0}, model=model
    )
    machine.add_callback(ZeroGradients())
    machine.train()
    log = machine.state.log_history[0]
    assert math.isfinite(log["loss"]) == filtered
    assert ("mlm_loss" in log and math.isfinite(log["mlm_loss"])) == filtered
    calls.clear()
    machine.args.per_device_eval_batch_size = 1
    assert math.isfinite(machine.evaluate()["eval_loss"]) == filtered


class ZeroGradients(transformers.TrainerCallback):
    """Has an update change nothing."""

    def on_pre_optimizer_step(self, args, state, control, model, **others):
        model.zero_grad()


def test_a_loss_of_no_masked_tokens_is_never_the_best(make, caplog):
    found = make(eval_dataset=rows(["the red house"])).evaluate()
    assert math.isnan(found["eval_loss"])
    assert any("eval: no token is masked" in message for message in caplog.messages)


def test_the_training_loss_is_the_mean_of_the_updates(make):
    """Also where an evaluation on the training texts has the prefix of the training."""
    machine = make({"max_steps": 3})
    machine.add_callback(Calls(before=lambda: machine.evaluate(rows(), metric_key_prefix="train")))
    result = machine.train()
    assert result.training_loss == pytest.approx(np.mean(losses(machine)), rel=1e-6)
    assert result.metrics["train_loss"] == machine.state.log_history[-1]["train_loss"] == result.training_loss
    evaluated = [log["train_loss"] for log in machine.state.log_history if "train_samples_per_second" in log]
    assert len(set(evaluated)) == 4


def test_a_log_of_the_users_is_only_that(make):
    machine = make({"max_steps": 2, "logging_steps": 2})
    machine.add_callback(Calls(before=lambda: machine.log({"loss": 1.0, "mine": 2.0})))
    machine.train()
    first, second, own = machine.state.log_history[:3]
    assert not RATES & {*first, *second}
    assert own.keys() >= RATES


def test_a_new_model_for_each_training(make):
    seeds = []
    machine = make(model_init=lambda: seeds.append(torch.initial_seed()) or small_model("BertForMaskedLM"))
    machine.train()
    first = weights(machine)
    machine.train()
    assert len(seeds) == 3
    assert_same(weights(machine), first, rtol=0, atol=0)


def test_a_saved_folder_loads_and_goes_on(make, tmp_path):
    machine = make()
    machine.train()
    machine.save_model()
    machine.create_model_card(tags="mine")
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert_same(loaded.state_dict(), weights(machine))
    assert "- mine" in (tmp_path / "out" / "README.md").read_text()
    assert make(model=loaded).evaluate()["eval_loss"] == pytest.approx(machine.evaluate()["eval_loss"], rel=1e-5)


@pytest.mark.parametrize("precision", ["bf16_full_eval", "fp16_full_eval"])
def test_an_evaluation_in_half_precision_leaves_the_model_as_it_is(precision, tmp_path):
    """The stock Trainer casts it in place."""
    machine = build(tmp_path, {precision: True})
    before, half = weights(machine), []
    machine.model.register_forward_hook(lambda module, given, output: half.append(output.logits.dtype))
    assert machine.evaluate()["eval_loss"] > 0
    assert half[0] == (torch.bfloat16 if precision.startswith("b") else torch.float16)
    assert_same(weights(machine), before, rtol=0, atol=0)
    assert machine.model.get_output_embeddings().weight is machine.model.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("settings", "others", "line"),
    [
        ({"label_smoothing_factor": 0.1}, {}, r"label_smoothing_factor 0.1: expected 0; use .*\(uniform_targets=...\)"),
        ({}, {"compute_loss_func": lambda *_, **__: 0}, "compute_loss_func: expected none"),
        ({"label_names": ["targets"]}, {}, r"label_names \['targets'\]: expected 'labels' too"),
        ({"sizes": "get_tp_size"}, {}, "sequence parallelism, expected data parallelism alone"),
        ({"sizes": "get_cp_size"}, {}, "sequence parallelism, expected data parallelism alone"),
    ],
)
def test_what_would_have_no_effect_is_refused(settings, others, line, tmp_path, monkeypatch):
    if "sizes" in settings:
        monkeypatch.setattr(transformers.Trainer, settings.pop("sizes"), lambda self: 2)
    with pytest.raises(TrueNegError, match=line):
        build(tmp_path, settings, **others)


def test_no_attribute_of_trainers_is_taken(tmp_path):
    source = inspect.getsource(transformers.Trainer) + "".join(
        inspect.getsource(sys.modules[f"transformers.{name}"]) for name in ("trainer_callback", "trainer_utils")
    )
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True)
    halves = ElectraForReplacedTokens.of(*electra_halves())
    electra = ElectraTrainer(halves, arguments, true_negatives=ElectraArguments(), processing_class=small_tokenizer())
    stock = {*vars(build(tmp_path, {}, kind=transformers.Trainer)), *dir(transformers.Trainer)}
    for machine in (build(tmp_path, {}), electra):
        for name in {*vars(machine), *dir(type(machine))} - stock:
            assert f"self.{name} " not in source and f"trainer.{name} " not in source, name
