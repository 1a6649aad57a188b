"""truneg glue: every run through fairseq-train, interrupted, continued, scored and refused."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import conftest
import fairseq
import numpy as np
import pytest
import torch
from glue_files import TEST, VALID, WORDS, write_bert, write_data, write_glue

import truneg_fairseq
from truneg_fairseq.commands import fairseq_run, glue, glue_predict, glue_runs
from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.convert.to_hf import to_hf
from truneg_fairseq.data.glue_tasks import TASKS
from truneg_fairseq.evaluation.glue_metrics import classification_metrics
from truneg_fairseq.evaluation.glue_recipes import make_recipe
from truneg_fairseq.evaluation.results import read_results
from truneg_fairseq.vocabulary import read_symbols

conftest.FORKABLE.append(["-m", "truneg_fairseq.commands.glue_process"])
SMALL_RUNS = ("--cpu", "--num-workers", 0, "--batch-size", 8, "--epochs", 2, "--max-length", 16, "--lr", 0.001)


@pytest.fixture(scope="module", autouse=True)
def registered():
    truneg_fairseq.register()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data") / "bin")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, data) -> Path:
    """Four tasks. Read only."""
    return write_glue(tmp_path_factory.mktemp("glue"), data, ["CoLA", "STS-B", "MNLI", "RTE"])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, data) -> Path:
    return write_bert(tmp_path_factory.mktemp("model"), data)


class Trainings:
    """In place of subprocess.Popen: starts the same processes faster, and counts them."""

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self.interrupt_at = 0

    def __call__(self, command, *, env, stdin, stdout, stderr):
        folder = Path(command[command.index("--save-dir") + 1])
        self.folders.append(folder)
        process = conftest.start_command(command, Path(stdout.name), Path(stdout.name))
        if len(self.folders) == self.interrupt_at:
            deadline = time.monotonic() + 100
            while not (folder / "checkpoint_last.pt").exists():
                assert process.poll() is None and time.monotonic() < deadline, Path(stdout.name).read_text()[-2000:]
                time.sleep(0.01)
            process.kill()
            process.wait()
            raise KeyboardInterrupt
        return process


def replace_popen(monkeypatch, start) -> None:
    names = {**vars(subprocess), "Popen": start}
    monkeypatch.setattr(glue_runs, "subprocess", SimpleNamespace(**names))


@pytest.fixture
def trainings(monkeypatch) -> Trainings:
    started = Trainings()
    replace_popen(monkeypatch, started)
    monkeypatch.setattr(glue_runs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return started


def finetune(checkpoint, data, output, *arguments):
    command = ["--checkpoint", checkpoint, "--data", data, "--output", output, *SMALL_RUNS, *arguments]
    run_as_script(glue, [str(word) for word in command])


def last_validation(folder: Path, subset: str) -> dict[str, float]:
    lines = [line for line in (folder / "train.log").read_text().splitlines() if f"| {subset} | " + "{" in line]
    found = json.loads(lines[-1].split(f"| {subset} | ")[1])
    return {name.removeprefix(f"{subset}_"): float(value) for name, value in found.items() if name != "epoch"}


def test_an_interrupted_command_continues(checkpoint, prepared, tmp_path, trainings):
    runs = ("--tasks", "sts-b", "--seeds", 2, "--model", "m")
    output = tmp_path / "out"
    trainings.interrupt_at = 2
    with pytest.raises(SystemExit):
        finetune(checkpoint, prepared, output, *runs)
    assert [result.key for result in read_results([output / "results.jsonl"])] == [("m", "STS-B", 1)]
    finetune(checkpoint, prepared, output, *runs)
    assert [folder.name for folder in trainings.folders] == ["STS-B-1", "STS-B-2", "STS-B-2"]
    log = (trainings.folders[1] / "train.log").read_text()
    assert log.count("loading pretrained model from") == 1
    assert "STS-B-2/checkpoint_last.pt (epoch" in log
    finetune(checkpoint, prepared, output, *runs)
    assert len(trainings.folders) == 3
    assert not list(output.rglob("checkpoint*.pt"))

    finetune(checkpoint, prepared, tmp_path / "whole", *runs)
    found, whole = (read_results([folder / "results.jsonl"]) for folder in (output, tmp_path / "whole"))
    assert [result.key for result in found] == [("m", "STS-B", 1), ("m", "STS-B", 2)]
    assert [result.metrics for result in found] == [result.metrics for result in whole]
    assert found[0].metrics != found[1].metrics
    for result in found:
        shown = last_validation(output / f"runs/m/STS-B-{result.seed}", "valid")
        for name in ("pearson", "spearman"):
            assert 100 * result.metrics[name] == pytest.approx(shown[name], abs=1e-3)


def test_results_and_submissions(checkpoint, prepared, tmp_path, trainings, capsys):
    arguments = ("--tasks", "sts-b", "mnli", "--seeds", 1, "--epochs", 1, "--model", "m", "--predict-test")
    finetune(checkpoint, prepared, tmp_path, *arguments)
    assert "accuracy_mismatched" in capsys.readouterr().out
    check_mnli(read_results([tmp_path / "results.jsonl"])[1], tmp_path)
    check_submissions(tmp_path / "submissions/m/seed-1")


def check_mnli(result, output) -> None:
    matched, mismatched = (last_validation(output / "runs/m/MNLI-1", name) for name in ("valid", "valid1"))
    assert 100 * result.metrics["accuracy"] == pytest.approx(matched["accuracy"], abs=1e-3)
    assert 100 * result.metrics["accuracy_mismatched"] == pytest.approx(mismatched["accuracy"], abs=1e-3)
    assert result.example_ids == [str(n) for n in range(VALID)]
    assert sum(result.examples["accuracy"]) == round(result.metrics["accuracy"] * VALID)
    assert result.wall_seconds > 0
    assert 50 < result.peak_memory_mb < 20_000
    assert result.settings["command"].startswith("fairseq-train --user-dir")
    assert result.settings["updates"] == 5


def check_submissions(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["MNLI-m.tsv", "MNLI-mm.tsv", "STS-B.tsv"]
    for path in folder.iterdir():
        header, *lines = [line.split("\t") for line in path.read_text().splitlines()]
        assert header == ["index", "prediction"]
        assert [line[0] for line in lines] == [str(number) for number in range(TEST)]
        for _, prediction in lines:
            if path.stem == "STS-B":
                assert 0 <= float(prediction) <= 5
            else:
                assert prediction in TASKS["MNLI"].labels


def test_workers_see_every_example_once(checkpoint, prepared, tmp_path):
    """Two workers with 13 examples in batches of 4: batches of 4, 4, 4 and 1, of which the last step has one and none.
    What they log is what one process finds; a kept model exports, with the same predictions."""
    from transformers import AutoModelForSequenceClassification

    data, output = prepared, tmp_path / "out"
    words = ["--checkpoint", checkpoint, "--data", data, "--output", output, *SMALL_RUNS]
    command = conftest.truneg("glue", *words, "--tasks", "rte", "--seeds", 1, "--workers", 2, "--keep-models")
    conftest.run_command(command)
    (result,) = read_results([output / "results.jsonl"])
    folder = output / "runs/small/RTE-1"
    shown = last_validation(folder, "valid")
    assert 100 * result.metrics["accuracy"] == pytest.approx(shown["accuracy"], abs=1e-3)
    predictor = glue_predict.Predictor(folder / "model.pt", data / "RTE", cpu=True)
    found = predictor.predict("valid")
    expected = classification_metrics(found.values, found.targets, 2)
    for name, value in expected.items():
        assert 100 * value == pytest.approx(shown[name], abs=1e-3)
    to_hf(folder / "model.pt", tmp_path / "hf", data=data / "RTE")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    assert [model.config.id2label[n] for n in range(2)] == list(TASKS["RTE"].labels)
    dataset = predictor._task.dataset("valid")
    symbols = read_symbols(data / "RTE")
    tokens = (data / "RTE" / "vocab.txt").read_text().split()
    row_of = {"<s>": "[CLS]", "</s>": "[SEP]"}
    for index in range(3):
        item = dataset[index]
        ids = [tokens.index(row_of.get(symbols[i], symbols[i])) for i in item["net_input.src_tokens"]]
        first = ids.index(tokens.index("[SEP]")) + 1
        segments = torch.tensor([[0] * first + [1] * (len(ids) - first)])
        logits = model(torch.tensor([ids]), token_type_ids=segments).logits
        assert int(logits.argmax()) == found.values[item["id"]]


def test_divergence_is_told_at_the_end(checkpoint, prepared, tmp_path, trainings, capsys):
    with pytest.raises(SystemExit, match=r"RTE seed 1: the loss became NaN or infinite \(.*train.log\); lower --lr"):
        finetune(checkpoint, prepared, tmp_path, "--tasks", "RTE", "--seeds", 1, "--lr", "1e30")
    assert not list(tmp_path.rglob("checkpoint*.pt"))
    assert len(trainings.folders) == 1
    assert not (tmp_path / "results.jsonl").exists()


@pytest.fixture
def no_training(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a training was started")

    replace_popen(monkeypatch, fail)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def edited(prepared: Path, folder: Path, task: str, changes: dict[str, object]) -> Path:
    """A copy of a task's folder with another description."""
    shutil.copytree(prepared / task, folder / task)
    info = json.loads((folder / task / "info.json").read_text())
    (folder / task / "info.json").write_text(json.dumps(info | changes))
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tasks", "sts"), r"--tasks: found 'sts', expected some of CoLA, SST-2"),
        (("--tasks", "all"), r"SST-2: no such folder; expected SST-2 prepared by prepare_glue.py"),
        (("--tasks", "RTE", "--workers", 3), r"--workers 3: expected a divisor of the batch size 8"),
        (("--tasks", "RTE", "--seeds", 0), r"--seeds 0: expected 1 or more"),
        (("--tasks", "RTE", "--epochs", 0), r"--epochs 0: expected 1 or more"),
        (("--tasks", "RTE", "--lr", "nan"), r"--lr nan: expected a number above 0"),
        (("--tasks", "RTE", "--layer-lr-decay", 2), r"--layer-lr-decay 2.0: expected a number in \(0, 1\]"),
        (("--tasks", "RTE", "--max-length", 25), r"--max-length 25: expected 8 to the model's 24 positions"),
        (("--tasks", "RTE", "--model", "a/b"), r"--model 'a/b': expected a name without '/'"),
        (
            ("--tasks", "RTE", "--recipe", "roberta", "--layer-lr-decay", 0.8),
            r"--layer-lr-decay: the RoBERTa recipe has none",
        ),
    ],
)
def test_bad_options_are_told_before_training(arguments, message, checkpoint, prepared, tmp_path, no_training):
    with pytest.raises(SystemExit, match=message):
        finetune(checkpoint, prepared, tmp_path / "out", *arguments)


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("RTE", {"task": "QNLI"}, r"RTE: has the task QNLI, expected RTE; prepare it again"),
        ("CoLA", {"task": "RTE", "labels": ["0", "1"]}, r"has the labels 0, 1, expected entailment, not_entailment"),
        ("RTE", {"splits": {"train": {"examples": 4}}}, r"RTE: has no split valid"),
        ("RTE", {"vocabulary": "0" * 64}, r"dict.txt: is not the dictionary that the data were made with"),
    ],
)
def test_other_data_are_told_before_training(task, changes, message, checkpoint, prepared, tmp_path, no_training):
    folder = edited(prepared, tmp_path, task, changes)
    if task != "RTE":
        (folder / task).rename(folder / "RTE")
    with pytest.raises(SystemExit, match=message):
        finetune(checkpoint, folder, tmp_path / "out", "--tasks", "RTE")


@pytest.mark.parametrize("words", [WORDS[::-1], WORDS[:-1]], ids=["order", "size"])
def test_another_vocabulary_is_told_before_training(words, checkpoint, tmp_path, no_training):
    glue_dir = write_glue(tmp_path, write_data(tmp_path / "bin", words), ["RTE"])
    with pytest.raises(SystemExit, match=r"fingerprint.*expected the same: prepare the data with"):
        finetune(checkpoint, glue_dir, tmp_path / "out", "--tasks", "RTE")


def test_without_its_data_a_checkpoint_has_a_size(prepared, tmp_path, no_training):
    data = write_data(tmp_path / "bin", WORDS[:-1])
    checkpoint = write_bert(tmp_path, data)
    shutil.rmtree(data)
    with pytest.raises(SystemExit, match=r"small.pt: has \d+ embeddings, the dictionary of .*RTE has \d+ symbols"):
        finetune(checkpoint, prepared, tmp_path / "out", "--tasks", "RTE")


def test_other_settings_do_not_mix(checkpoint, prepared, tmp_path, trainings):
    output = tmp_path / "out"
    finetune(checkpoint, prepared, output, "--tasks", "CoLA", "--seeds", 1, "--epochs", 1)
    with pytest.raises(SystemExit, match=r"has CoLA seed 1 of small with lr 0.001, expected 0.02"):
        finetune(checkpoint, prepared, output, "--tasks", "CoLA", "--seeds", 1, "--epochs", 1, "--lr", 0.02)
    with pytest.raises(SystemExit, match="--predict-test: CoLA seed 1 is finished and its model was not kept"):
        finetune(checkpoint, prepared, output, "--tasks", "CoLA", "--seeds", 1, "--epochs", 1, "--predict-test")
    (result,) = read_results([output / "results.jsonl"])
    assert result.metrics.keys() == {"matthews", "accuracy"}
    fairseq_run.keep_settings(output / "runs/small/CoLA-1", {})
    assert len(trainings.folders) == 1


def test_recipes():
    """ELECTRA's table, and fairseq's configurations where this installation has them."""
    small = make_recipe("electra", "RTE", width=256, positions=512, examples=2490)
    assert (small.lr, small.layer_lr_decay, small.epochs, small.updates) == (3e-4, 0.8, 10, 780)
    assert small.warmup_updates == 78
    base = make_recipe("electra", "MNLI", width=768, positions=512, examples=392_702)
    assert (base.lr, base.layer_lr_decay, base.epochs, base.updates) == (1e-4, 0.8, 3, 36_816)
    large = make_recipe("electra", "STS-B", width=1024, positions=512, examples=5749)
    assert (large.lr, large.layer_lr_decay, large.epochs, large.max_length) == (5e-5, 0.9, 10, 128)
    configurations = Path(fairseq.__file__).parent / "examples/roberta/config/finetuning"
    if not configurations.is_dir():
        pytest.skip("this fairseq comes without its examples")
    import yaml

    for task in TASKS:
        name = task.lower().replace("-", "_")
        stock = yaml.safe_load((configurations / f"{name}.yaml").read_text())
        ours = make_recipe("roberta", task, width=768, positions=512, examples=1)
        optimization, optimizer = stock["optimization"], stock["optimizer"]
        assert ours.lr == float(optimization["lr"][0])
        assert (ours.updates, ours.epochs) == (optimization["max_update"], optimization["max_epoch"])
        assert ours.batch_size == stock["dataset"]["batch_size"]
        assert ours.warmup_updates == stock["lr_scheduler"]["warmup_updates"]
        assert (ours.weight_decay, ours.clip_norm) == (optimizer["weight_decay"], optimization["clip_norm"])


class Curves:
    """The losses of BertForSequenceClassification trained by AdamW, and of our model on the same batches."""

    def __init__(self, theirs, ours, head: str, rows: torch.Tensor) -> None:
        from truneg_fairseq.optim.adam import ElectraAdam

        self.theirs, self.ours, self.head, self.rows = theirs.train(), ours.train(), head, rows
        options = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
        self.optimizers = [
            torch.optim.AdamW(theirs.parameters(), **options),
            ElectraAdam(ours.parameters(), **options, bias_correction=True),
        ]

    def step(self, batch) -> tuple[float, float]:
        tokens, labels = batch["net_input"]["src_tokens"], batch["target"].view(-1)
        separators = tokens.eq(2).cumsum(1) - tokens.eq(2).long()
        real = tokens.ne(1)
        outputs = self.theirs(
            self.rows[tokens],
            attention_mask=real.long(),
            token_type_ids=(separators.ge(1) & real).long(),
            labels=labels,
        )
        logits, _ = self.ours(**batch["net_input"], features_only=True, classification_head_name=self.head)
        losses = outputs.loss, torch.nn.functional.cross_entropy(logits, labels)
        for loss, optimizer in zip(losses, self.optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return losses[0].item(), losses[1].item()


def test_losses_are_those_of_transformers(prepared, tmp_path, data):
    """A converted model goes the way of the original: 20 updates on MNLI's pairs, dropout 0."""
    import transformers
    from convert_models import SMALL, hf_rows, load_with_fairseq, randomize

    from truneg_fairseq.convert.from_hf import from_hf
    from truneg_fairseq.tasks.glue import GlueConfig, GlueTask

    tokens = (data / "vocab.txt").read_text().split()
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
    config = transformers.BertConfig(vocab_size=len(tokens), num_labels=3, **SMALL, **rates)
    theirs = randomize(transformers.BertForSequenceClassification(config))
    theirs.bert.save_pretrained(tmp_path / "hf")
    from_hf(tmp_path / "hf", data, tmp_path / "start.pt")
    ours, _ = load_with_fairseq(tmp_path / "start.pt", data)
    ours.register_classification_head("mnli", num_classes=3)
    head = ours.classification_heads["mnli"]
    head.dropout.p = 0.0
    with torch.no_grad():
        for mine, original in (("dense", theirs.bert.pooler.dense), ("out_proj", theirs.classifier)):
            getattr(head, mine).load_state_dict(original.state_dict())

    cfg = GlueConfig(data=str(prepared / "MNLI"), num_classes=3, max_length=16, max_positions=24, seed=1)
    cfg.regression_target, cfg.classification_head_name = False, "mnli"
    task = GlueTask.setup_task(cfg)
    dataset = task.load_dataset("train")
    curves = Curves(theirs, ours, "mnli", hf_rows(tokens, task.source_dictionary.symbols))
    order = [list(range(begin, begin + 8)) for begin in range(0, 40, 8)] * 4
    losses = np.array([curves.step(dataset.collater([dataset[index] for index in batch])) for batch in order])
    assert len(losses) == 20
    assert losses[:, 1] == pytest.approx(losses[:, 0], abs=1e-4)
    assert np.ptp(losses[:, 0]) > 0.1
