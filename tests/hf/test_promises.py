"""What transformers' Trainer promises: each case holds for the stock Trainer, and for TrueNegativeTrainer as well."""

from __future__ import annotations

import inspect
import math
import sys

import numpy as np
import pytest
import torch
from support.commands import REPOSITORY, run_command
from support.hf_models import LINES, ROWS, electra_halves, masked_batch, small_model, small_tokenizer

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


def build(kind, folder, settings, *, model=None, **others):
    """A trainer of a tiny BERT on six texts, whose masks depend on the text alone."""
    defaults = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "max_steps": 2}
    defaults |= {"per_device_train_batch_size": 2, "logging_steps": 1, "learning_rate": 1e-2}
    if model is None and "model_init" not in others:
        model = small_model("BertForMaskedLM")
    others = {"train_dataset": rows(), "eval_dataset": rows(LINES), "data_collator": masked_batch, **others}
    return (TrueNegativeTrainer if kind == "ours" else transformers.Trainer)(
        model,
        transformers.TrainingArguments(str(folder / "out"), **{**defaults, **settings}),
        processing_class=small_tokenizer(),
        **others,
    )


@pytest.fixture(params=["stock", "ours"])
def make(request, tmp_path):
    def made(settings=None, **others):
        return build(request.param, tmp_path, settings or {}, **others)

    made.is_ours = request.param == "ours"
    return made


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
    broken = Calls(lambda state, control: setattr(control, "should_training_stop", state.global_step == 2))
    make(settings, model=model(), callbacks=[broken]).train()
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
    settings = {
        "max_steps": 3,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1,
        **best,
    }
    machine = make(settings, compute_metrics=lambda found: {"accuracy": next(scores)})
    machine.add_callback(Calls(lambda state, control: seen.append(weights(machine))))
    machine.train()
    assert machine.state.best_metric == 0.9
    assert machine.state.best_model_checkpoint.endswith("checkpoint-2")
    assert_same(weights(machine), seen[1], rtol=0, atol=0)


def test_training_stops_early_by_the_users_metric(make):
    scores = iter([0.9, 0.5, 0.4, 0.3])
    settings = {"max_steps": 9, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "best"}
    settings |= {"load_best_model_at_end": True, "metric_for_best_model": "accuracy"}
    stop = transformers.EarlyStoppingCallback(early_stopping_patience=2)
    machine = make(settings, compute_metrics=lambda found: {"accuracy": next(scores)}, callbacks=[stop])
    machine.train()
    assert machine.state.global_step == 3


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

    settings = {
        "per_device_eval_batch_size": 2,
        "batch_eval_metrics": per_batch,
        "include_for_metrics": ["inputs", "loss"],
    }
    found = make(settings, compute_metrics=compute).evaluate()
    assert found["eval_seen"] == (2 if per_batch else 1)
    longest = max(len(row["input_ids"]) for row in rows(LINES))
    for logits, labels, inputs, each in seen:
        assert logits == (*labels, ROWS)
        assert inputs is not None and each is not None
    if not per_batch:
        assert seen[0][1] == (3, longest)


def test_labels_are_those_of_label_names_and_logits_are_prepared(make):
    prepared = lambda logits, labels: logits.argmax(-1)  # noqa: E731
    machine = make({"label_names": ["labels"]}, preprocess_logits_for_metrics=prepared)
    found = machine.predict(rows(LINES))
    assert found.predictions.shape == found.label_ids.shape
    assert (found.label_ids != -100).any()
    assert found.metrics["test_loss"] > 0


def test_predictions_without_labels(make):
    texts = [{**row, "attention_mask": [1] * len(row["input_ids"])} for row in rows(["a mat", "the cat"])]
    machine = make(data_collator=transformers.DataCollatorWithPadding(small_tokenizer()))
    found = machine.predict(texts)
    assert found.predictions.shape[::2] == (2, ROWS)
    assert found.label_ids is None
    assert "test_loss" not in found.metrics


def test_callbacks_hear_every_event_in_order(make):
    calls = Calls()
    machine = make(
        {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 2}, callbacks=[calls]
    )
    machine.train()
    update = ["step", "log", "predict", "result", "evaluate"]
    assert calls.events == [*update, *update, "save", "result"]


@pytest.mark.filterwarnings("ignore")
def test_hyperparameters_are_searched_by_the_loss(make):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    machine = make({"eval_strategy": "steps", "eval_steps": 2}, model_init=lambda: small_model("BertForMaskedLM"))
    space = lambda trial: {"learning_rate": trial.suggest_categorical("learning_rate", [1e-4, 1e-2])}  # noqa: E731
    sampler = optuna.samplers.GridSampler({"learning_rate": [1e-4, 1e-2]})
    best = machine.hyperparameter_search(space, n_trials=2, backend="optuna", sampler=sampler)
    assert best.hyperparameters == {"learning_rate": 1e-2}
    last = [log["eval_loss"] for log in machine.state.log_history if "eval_loss" in log]
    assert best.objective <= last[-1]


def test_the_default_objective_of_a_search_is_the_sum_of_the_users_metrics(make, monkeypatch):
    machine = make(compute_metrics=lambda found: {"accuracy": 0.25, "mine": 0.5})
    found, seen = machine.evaluate(), []
    search = lambda self, space=None, objective=None: seen.append(objective)  # noqa: E731
    monkeypatch.setattr(transformers.Trainer, "hyperparameter_search", search)
    machine.hyperparameter_search()
    objective = seen[0] or transformers.trainer_utils.default_compute_objective
    assert objective(found) == pytest.approx(0.75, abs=0.05)  # with the time to prepare the model


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
    log = machine.state.log_history[0]
    if make.is_ours:
        fresh = make({**settings, "learning_rate": 0.0, "per_device_train_batch_size": 2})
        fresh.train()
        assert log["mlm_loss"] == pytest.approx(fresh.state.log_history[0]["mlm_loss"], rel=1e-6)


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
    assert log["loss"] > 0
    if make.is_ours:
        assert log["mlm_loss"] == pytest.approx(log["loss"], rel=1e-5)


class Stream(torch.utils.data.IterableDataset):
    """Texts without a length."""

    def __iter__(self):
        yield from rows() * 2


def test_data_without_a_length(make):
    machine = make({"max_steps": 4}, train_dataset=Stream(), eval_dataset=Stream())
    machine.train()
    assert machine.state.global_step == 4
    assert machine.evaluate()["eval_loss"] > 0


def test_columns_that_no_model_takes(make):
    texts = [{**row, "text": "unused"} for row in rows()]
    machine = make(train_dataset=texts, eval_dataset=texts)
    machine.train()
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
    if make.is_ours:
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
    if make.is_ours:
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
    assert (own.keys() >= RATES) == make.is_ours


def test_a_new_model_for_each_training(make):
    seeds = []
    machine = make(model_init=lambda: seeds.append(torch.initial_seed()) or small_model("BertForMaskedLM"))
    machine.train()
    first = weights(machine)
    machine.train()
    assert len(seeds) == 3
    assert_same(weights(machine), first, rtol=0, atol=0)


def test_evaluations_of_one_model_are_equal_and_leave_the_training_alone(make):
    seen = []
    for settings in ({"eval_strategy": "steps", "eval_steps": 1}, {}):
        machine = make({"max_steps": 3, **settings})
        machine.train()
        seen.append(losses(machine))
    assert seen[0] == seen[1]
    assert machine.evaluate()["eval_loss"] == machine.evaluate()["eval_loss"]


def test_tokens_are_counted_and_gradients_are_clipped(make):
    machine = make(
        {"include_num_input_tokens_seen": "non_padding", "max_grad_norm": 1e-3, "gradient_checkpointing": True}
    )
    machine.train()
    log = machine.state.log_history[0]
    assert log["num_input_tokens_seen"] > 0
    assert log["grad_norm"] > 1e-3


def test_the_learning_rate_follows_the_evaluations(make):
    settings = {"max_steps": 3, "eval_strategy": "steps", "eval_steps": 1, "lr_scheduler_type": "reduce_lr_on_plateau"}
    settings |= {"metric_for_best_model": "eval_loss", "lr_scheduler_kwargs": {"patience": 0, "threshold": 1e6}}
    machine = make(settings)
    machine.train()
    rates = [log["learning_rate"] for log in machine.state.log_history if "learning_rate" in log]
    assert rates[-1] < rates[0]


def test_a_saved_folder_loads_and_goes_on(make, tmp_path):
    machine = make()
    machine.train()
    machine.save_model()
    machine.create_model_card(tags="mine")
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert_same(loaded.state_dict(), weights(machine))
    assert "- mine" in (tmp_path / "out" / "README.md").read_text()
    assert make(model=loaded).evaluate()["eval_loss"] == pytest.approx(machine.evaluate()["eval_loss"], rel=1e-5)


PROCESSES = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/hf"]
from test_promises import build, rows

settings = {"per_device_train_batch_size": 6 // int(sys.argv[3]), "ddp_backend": "gloo"}
machine = build("ours", Path(sys.argv[1]), {**settings, "average_tokens_across_devices": True})
machine.train()
loss = machine.evaluate(rows() * 3)["eval_loss"]
if machine.args.process_index == 0:
    print("found", machine.args.world_size, *(log["loss"] for log in machine.state.log_history[:2]), loss)
"""


@pytest.mark.slow
def test_two_processes_train_and_evaluate_as_one(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROCESSES, encoding="utf-8")
    found = []
    for processes in (1, 2):
        launch = ["-m", "torch.distributed.run", "--nproc_per_node", processes, "--standalone"]
        printed = run_command([sys.executable, *launch, script, tmp_path, REPOSITORY / "tests", processes]).stdout
        line = next(line for line in printed.splitlines() if line.startswith("found"))
        assert line.split()[1] == str(processes)
        found.append([float(value) for value in line.split()[2:]])
    assert found[1] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.parametrize("precision", ["bf16_full_eval", "fp16_full_eval"])
def test_an_evaluation_in_half_precision_leaves_the_model_as_it_is(precision, tmp_path):
    """The stock Trainer casts it in place."""
    machine = build("ours", tmp_path, {precision: True})
    before, half = weights(machine), []
    machine.model.register_forward_hook(lambda module, given, output: half.append(output.logits.dtype))
    assert machine.evaluate()["eval_loss"] > 0
    assert half[0] == (torch.bfloat16 if precision.startswith("b") else torch.float16)
    assert_same(weights(machine), before, rtol=0, atol=0)
    assert machine.model.get_output_embeddings().weight is machine.model.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("settings", "others", "line"),
    [
        (
            {"label_smoothing_factor": 0.1},
            {},
            r"label_smoothing_factor 0.1: expected 0; use TrueNegativeArguments\(uniform_targets=...\)",
        ),
        ({}, {"compute_loss_func": lambda *_, **__: 0}, "compute_loss_func: expected none"),
        ({"label_names": ["targets"]}, {}, r"label_names \['targets'\]: expected 'labels' too"),
    ],
)
def test_what_would_have_no_effect_is_refused(settings, others, line, tmp_path):
    with pytest.raises(TrueNegError, match=line):
        build("ours", tmp_path, settings, **others)


@pytest.mark.parametrize("size", ["get_tp_size", "get_cp_size", "get_sp_size"])
def test_parallelism_inside_a_model_is_refused(size, tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.Trainer, size, lambda self: 2)
    with pytest.raises(TrueNegError, match="sequence parallelism, expected data parallelism alone"):
        build("ours", tmp_path, {})


def test_no_attribute_of_trainers_is_taken(tmp_path):
    source = inspect.getsource(transformers.Trainer) + "".join(
        inspect.getsource(sys.modules[f"transformers.{name}"]) for name in ("trainer_callback", "trainer_utils")
    )
    arguments = {
        "processing_class": small_tokenizer(),
        "args": transformers.TrainingArguments(str(tmp_path), use_cpu=True),
    }
    electra = ElectraForReplacedTokens.of(*electra_halves())
    for machine in (
        build("ours", tmp_path, {}),
        ElectraTrainer(electra, true_negatives=ElectraArguments(), **arguments),
    ):
        stock = {*vars(build("stock", tmp_path, {})), *dir(transformers.Trainer)}
        for name in {*vars(machine), *dir(type(machine))} - stock:
            assert f"self.{name} " not in source and f"trainer.{name} " not in source, name
