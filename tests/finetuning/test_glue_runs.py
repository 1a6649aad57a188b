"""truneg finetune on GLUE: every run through fairseq-train, continued, scored and refused; tests/cli interrupts it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support import commands, convert_models
from support.cli_runs import largest_difference
from support.finetunings import Trainings, count_trainings, replace_popen, validations
from support.glue_files import TEST, VALID, WORDS, wordpieces, write_data, write_glue, write_model

import truneg_fairseq
from truneg_fairseq.commands.main import main
from truneg_fairseq.convert.to_hf import to_hf
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning.glue import TASKS, Glue
from truneg_fairseq.finetuning.run_finetuning import load_finetuned
from truneg_fairseq.launch import training_run as training
from truneg_fairseq.results.result import read_results

SMALL_RUNS = ("--cpu", "--batch-size", 8, "--epochs", 2, "--lr", 0.001)


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
    return write_model(tmp_path_factory.mktemp("model"), data)


@pytest.fixture
def trainings(monkeypatch) -> Trainings:
    return count_trainings(monkeypatch)


def finetune(checkpoint, data, output, *arguments):
    command = ["finetune", checkpoint, "--prepared", data, "--output", output, *SMALL_RUNS, *arguments]
    main([str(word) for word in command])


def interrupt(*_: object) -> None:
    """As Ctrl-C does, but also where the signal is ignored, as it is in a shell's background."""
    raise KeyboardInterrupt


def test_a_training_that_ended_is_not_started_again(checkpoint, prepared, tmp_path, trainings, monkeypatch):
    """The command was ended while it scored, or its results were deleted; without its model it is trained again."""
    arguments = ("--tasks", "CoLA", "--seeds", 1, "--epochs", 1)
    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(Glue, "score", interrupt)
        finetune(checkpoint, prepared, tmp_path, *arguments, "--keep-models")
    assert not (tmp_path / "results.jsonl").exists()
    finetune(checkpoint, prepared, tmp_path, *arguments, "--keep-models")
    (first,) = read_results([tmp_path / "results.jsonl"])
    (tmp_path / "results.jsonl").unlink()
    finetune(checkpoint, prepared, tmp_path, *arguments)
    assert len(trainings.folders) == 1
    (tmp_path / "runs/small/CoLA-1/model.pt").unlink()
    (tmp_path / "results.jsonl").unlink()
    finetune(checkpoint, prepared, tmp_path, *arguments)
    assert len(trainings.folders) == 2
    (again,) = read_results([tmp_path / "results.jsonl"])
    assert (again.metrics, again.examples) == (first.metrics, first.examples)


def test_what_another_command_has_finished_is_not_trained_again(checkpoint, prepared, tmp_path, monkeypatch):
    """A second command trains RTE in the same folder, and tidies up, while the first one is at CoLA."""
    arguments = ("--seeds", 1, "--epochs", 1, "--tasks")

    class Meanwhile(Trainings):
        def __call__(self, command, **options):
            if not self.lines:
                self.lines.append(["--save-dir", str(tmp_path)])
                finetune(checkpoint, prepared, tmp_path, *arguments, "RTE")
            return super().__call__(command, **options)

    trainings = Meanwhile()
    replace_popen(monkeypatch, trainings)
    finetune(checkpoint, prepared, tmp_path, *arguments, "CoLA", "RTE")
    assert [folder.name for folder in trainings.folders[1:]] == ["RTE-1", "CoLA-1"]
    assert [result.task for result in read_results([tmp_path / "results.jsonl"])] == ["RTE", "CoLA"]


def test_a_kept_model_answers_files_of_the_tasks_format(checkpoint, prepared, tmp_path, trainings, capsys):
    """The dev file gives the run's metrics, the test file a submission; also where the prepared data have moved."""
    arguments = ("--tasks", "RTE", "STS-B", "MNLI", "--seeds", 1, "--epochs", 1, "--keep-models")
    moving = Path(shutil.copytree(prepared, tmp_path / "glue"))
    finetune(f"small={checkpoint}", moving, tmp_path, *arguments)
    assert re.search(r"^GLUE\nModel +STS-B ↑ +MNLI ↑ +RTE ↑ +Average ↑\n.*\nsmall +-?\d", capsys.readouterr().out)
    moved = moving.rename(tmp_path / "moved")
    by_task = {result.task: result for result in read_results([tmp_path / "results.jsonl"])}
    of_mnli = by_task.pop("MNLI")
    for name, subset in (("accuracy", "valid"), ("accuracy_mismatched", "valid1")):
        shown = validations(tmp_path / "runs/small/MNLI-1", subset)[-1]["accuracy"]
        assert 100 * of_mnli.metrics[name] == pytest.approx(shown, abs=0.06)
    assert of_mnli.example_ids == [str(n) for n in range(VALID)]
    assert sum(of_mnli.examples["accuracy"]) == round(of_mnli.metrics["accuracy"] * VALID)
    assert of_mnli.wall_seconds > 0
    assert 50 < of_mnli.peak_memory_mb < 20_000
    assert of_mnli.settings["command"].startswith("fairseq-train --user-dir")
    assert (of_mnli.settings["updates"], of_mnli.group, of_mnli.shown["accuracy"].title) == (5, "GLUE", "MNLI")
    for result in by_task.values():
        official = prepared.parent / "official" / result.task
        words = ["predict", str(tmp_path / f"runs/small/{result.task}-1/model.pt"), "--cpu"]
        with pytest.raises(SystemExit, match=r"glue.*, which is not a folder here; name it with --prepared"):
            main([*words, "dev.tsv"])
        words += ["--prepared", str(moved / result.task)]
        main([*words, str(official / "dev.tsv")])
        report = json.loads(capsys.readouterr().out)
        assert report.pop("examples") == VALID
        assert report == pytest.approx({name: 100 * value for name, value in result.metrics.items()})
        main([*words, str(official / "test.tsv"), "--output", str(tmp_path / "answers.tsv")])
        assert json.loads(capsys.readouterr().out) == {"examples": TEST}
        header, *lines = [line.split("\t") for line in (tmp_path / "answers.tsv").read_text().splitlines()]
        assert header == ["index", "prediction"]
        assert [index for index, _ in lines] == [str(number) for number in range(TEST)]
        if result.task == "RTE":
            assert {label for _, label in lines} <= set(TASKS["RTE"].labels)
        else:
            assert all(0 <= float(value) <= 5 for _, value in lines)
    path = tmp_path / "runs/small/RTE-1/model.pt"
    content = torch.load(path, weights_only=True)
    (bias,) = (name for name in content["model"] if "classification_head" in name and name.endswith("out_proj.bias"))
    content["model"][bias][1] = float("nan")
    torch.save(content, path)
    with pytest.raises(TrueNegError, match="the model's scores are NaN or infinite: it has diverged; lower --lr"):
        TASKS["RTE"].answer(*load_finetuned(path, prepared / "RTE", cpu=True), "valid")


MINE = """
from truneg_fairseq import register_task
from truneg_fairseq.finetuning.glue import Glue

@register_task("mine")
class Mine(Glue):
    def __init__(self):
        super().__init__("mine", ("sentence1", "sentence2"), "label", ("entailment", "not_entailment"))
"""


def test_a_task_of_ones_own_is_prepared_trained_and_answered(checkpoint, data, prepared, tmp_path, trainings, capsys):
    ideas, official = tmp_path / "tasks_of_mine", prepared.parent / "official" / "RTE"
    ideas.mkdir()
    (ideas / "__init__.py").write_text(MINE)
    files = ("--task", f"mine={official}", "--data", data, "--output-dir", tmp_path / "data", "--max-length", 16)
    commands.truneg_data("prepare", "--user-dir", ideas, *files)
    arguments = (checkpoint, tmp_path / "data", tmp_path, "--user-dir", ideas, "--seeds", 1, "--epochs", 1)
    finetune(*arguments, "--keep-models")
    (result,) = read_results([tmp_path / "results.jsonl"])
    assert (result.task, len(result.settings["fine-tuning task mine"])) == ("mine", 64)
    capsys.readouterr()
    model = tmp_path / "runs/small/mine-1/model.pt"
    main([str(word) for word in ("predict", model, official / "dev.tsv", "--user-dir", ideas, "--cpu")])
    report = json.loads(capsys.readouterr().out)
    assert report == {"examples": VALID, "accuracy": pytest.approx(100 * result.metrics["accuracy"])}
    (ideas / "__init__.py").write_text(f"{MINE}\n# changed\n")
    message = r"data/mine: was made with another fine-tuning task mine; remove it and run 'truneg data prepare' again"
    with pytest.raises(SystemExit, match=message):
        finetune(*arguments)
    assert len(trainings.folders) == 1


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("bf16", torch.bfloat16),
        pytest.param("fp16", torch.float16, marks=pytest.mark.skipif(not commands.CUDA, reason="needs a GPU")),
    ],
)
def test_half_precision(precision, dtype, checkpoint, prepared, tmp_path, trainings, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SMALL_RUNS", SMALL_RUNS[1:] if precision == "fp16" else SMALL_RUNS)
    arguments = ("--tasks", "RTE", "--seeds", 1, "--epochs", 1, "--keep-models")
    finetune(checkpoint, prepared, tmp_path, *arguments, "--precision", precision)
    (result,) = read_results([tmp_path / "results.jsonl"])
    assert result.settings["precision"] == precision
    (folder,) = trainings.folders
    state = torch.load(folder / "model.pt", weights_only=True)["model"]
    # fairseq stores float32: of what was trained in half precision nothing is lost by half precision.
    assert all(tensor.isfinite().all() and torch.equal(tensor, tensor.to(dtype).float()) for tensor in state.values())
    start = torch.load(checkpoint, weights_only=True)["model"]
    assert all(largest_difference({"": state[name]}, {"": start[name]}) > 0 for name in state if "fc1" in name)
    assert 100 * result.metrics["accuracy"] == pytest.approx(validations(folder)[-1]["accuracy"], abs=8)


def test_scores_of_nan_end_one_run_and_the_others_go_on(checkpoint, prepared, tmp_path, trainings, monkeypatch):
    def evaluate(self, model, task, prepared, folder):
        if folder.name == "RTE-1":
            raise training.Diverged("the model's scores are NaN or infinite")
        return scores_of(self, model, task, prepared, folder)

    scores_of = Glue.evaluate
    monkeypatch.setattr(Glue, "evaluate", evaluate)
    with pytest.raises(SystemExit, match=r"scores are NaN or infinite"):
        finetune(checkpoint, prepared, tmp_path, "--tasks", "RTE", "--seeds", 1, 2)
    assert [result.seed for result in read_results([tmp_path / "results.jsonl"])] == [2]


@pytest.fixture
def no_training(monkeypatch):
    replace_popen(monkeypatch, lambda *_, **__: pytest.fail("a training was started"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tasks", "RTE", "SST-2"), r"SST-2/info.json: no such file; expected a task's folder, made by 'truneg"),
        (("--tasks", "WNLI"), r"--tasks WNLI: found no fine-tuning task of this name; expected one of CoLA, .*, SQuAD"),
        (("--tasks", "RTE", "--precision", "fp16"), r"--precision fp16: found --cpu; expected a GPU; use bf16 or fp32"),
    ],
)
def test_bad_options_are_refused_before_training(arguments, message, checkpoint, prepared, tmp_path, no_training):
    with pytest.raises(SystemExit, match=message):
        finetune(checkpoint, prepared, tmp_path / "out", *arguments)


def test_what_the_model_does_not_fit_is_refused_before_training(checkpoint, prepared, data, tmp_path, no_training):
    for words in (WORDS[::-1], WORDS[:-1]):
        other = write_data(tmp_path / f"{len(words)}" / "bin", words)
        glue_dir = write_glue(other.parent, other, ["RTE"])
        with pytest.raises(SystemExit, match=r"prepare the data with the model's"):
            finetune(checkpoint, glue_dir, tmp_path / "out", "--tasks", "RTE")
    small = write_model(tmp_path, other)
    content = torch.load(small, weights_only=True)
    del content["extra_state"]["vocabulary"]  # as another program saves it; it still has a size
    torch.save(content, small)
    with pytest.raises(SystemExit, match=r"small.pt: has \d+ embeddings, the dictionary of .*RTE has \d+ symbols"):
        finetune(small, prepared, tmp_path / "out", "--tasks", "RTE")
    short = write_model(tmp_path, data, name="short.pt", max_position_embeddings=15)
    with pytest.raises(SystemExit, match=r"examples of 16 tokens, .*short.pt has 15 positions; .*--max-length 15"):
        finetune(short, prepared, tmp_path / "out", "--tasks", "RTE")
    roberta = write_model(tmp_path, data, "RobertaForMaskedLM")
    with pytest.raises(SystemExit, match=r"is fairseq's roberta; expected a bert or electra model .*own recipes"):
        finetune(roberta, prepared, tmp_path / "out", "--tasks", "RTE")


def test_other_settings_do_not_mix(checkpoint, prepared, tmp_path, trainings):
    """Test sets change nothing of a run, and may be prepared later."""
    early, output = shutil.copytree(prepared, tmp_path / "early"), tmp_path / "out"
    info = json.loads((early / "CoLA" / "info.json").read_text())
    for part in ("sources", "splits"):
        assert info[part].pop("test")
    (early / "CoLA" / "info.json").write_text(json.dumps(info))
    for data in (early, prepared):
        finetune(checkpoint, data, output, "--tasks", "CoLA", "--seeds", 1, "--epochs", 1)
        assert not list(output.rglob("checkpoint*.pt"))
    with pytest.raises(SystemExit, match=r"CoLA seed 1 of small: was made with lr 0\.001 \(now 0\.02\)"):
        finetune(checkpoint, prepared, output, "--tasks", "CoLA", "--seeds", 1, "--epochs", 1, "--lr", 0.02)
    with pytest.raises(SystemExit, match="--keep-models: CoLA seed 1 of small is finished and its model was not kept"):
        finetune(checkpoint, prepared, output, "--tasks", "CoLA", "--seeds", 1, "--epochs", 1, "--keep-models")
    (result,) = read_results([output / "results.jsonl"])
    assert result.metrics.keys() == {"matthews", "accuracy"}
    with pytest.raises(TrueNegError, match=r"CoLA-1: was made with another checkpoint_sha256, .*; give the same"):
        training.check_settings(output / "runs/small/CoLA-1", {})
    assert len(trainings.folders) == 1


@pytest.mark.parametrize(
    ("family", "task", "width", "lr", "decay", "epochs"),
    [
        ("electra", "RTE", 256, 3e-4, 0.8, 10),
        ("electra", "MNLI", 768, 1e-4, 0.8, 3),
        ("electra", "STS-B", 1024, 5e-5, 0.9, 10),
        ("bert", "RTE", 384, 1e-4, 1.0, 3),
        ("bert", "RTE", 768, 3e-5, 1.0, 3),
        ("bert", "RTE", 1024, 2e-5, 1.0, 3),
    ],
)
def test_recipes(family, task, width, lr, decay, epochs):
    config = SimpleNamespace(family=family, hidden_size=width, positions=512)
    found = TASKS[task].recipe(config, {})
    assert (found.lr, found.layer_lr_decay, found.epochs) == (lr, decay, epochs)
    assert (found.batch_size, found.weight_decay, TASKS[task].max_length) == (32, 0.01, 128)


def test_divergence_is_reported_at_the_end(checkpoint, prepared, tmp_path, trainings, capsys):
    with pytest.raises(SystemExit, match=r"RTE seed 1 of small: the loss became NaN .*\(.*train.log\); lower --lr"):
        finetune(checkpoint, prepared, tmp_path, "--tasks", "RTE", "--seeds", 1, "--lr", "1e30")
    assert not list(tmp_path.rglob("checkpoint*.pt"))
    assert len(trainings.folders) == 1
    assert not (tmp_path / "results.jsonl").exists()


def raw_pairs(prepared: Path, task: str) -> list[tuple[str, str]]:
    header, *lines = (prepared.parent / "official" / task / "dev.tsv").read_text().splitlines()
    columns = [header.split("\t").index(name) for name in TASKS[task].texts]
    return [tuple(line.split("\t")[column] for column in columns) for line in lines]


@pytest.mark.parametrize("kind", ["BertModel", "ElectraModel"])
def test_transformers_reads_the_same_from_raw_pairs(kind, data, tmp_path, trainings):
    """A fine-tuned model exports with a tokenizer that gives what it was trained on, cut to the model's positions.

    Without the separators they leave an even number of tokens: of an odd one BERT's own code, and this package, give
    the first sentence one more, and transformers the longer one.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    positions = 15
    checkpoint = write_model(tmp_path, data, kind, max_position_embeddings=positions)
    prepared = write_glue(tmp_path, data, ["RTE"], max_length=positions)
    flags = ["--prepared", prepared, "--output", tmp_path, "--tasks", "RTE", "--seeds", 1]
    flags += ["--cpu", "--epochs", 1, "--lr", 0.01, "--keep-models"]
    main(["finetune", str(checkpoint), *map(str, flags)])
    (result,) = read_results([tmp_path / "results.jsonl"])
    assert result.settings["max_length"] == positions
    model_file = tmp_path / "runs/small/RTE-1/model.pt"
    ours, task = load_finetuned(model_file, prepared / "RTE", cpu=True)
    values, targets = TASKS["RTE"].answer(ours, task, "valid")
    assert (values == targets).tolist() == [score == 1 for score in result.examples["accuracy"]]

    to_hf(model_file, tmp_path / "hf")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    encoded = tokenizer(*zip(*raw_pairs(prepared, "RTE"), strict=True), truncation=True, padding=True)
    dataset = task.dataset("valid")
    batch = dataset.collater([dataset[index] for index in range(VALID)])
    rows = convert_models.hf_rows(wordpieces(data), task.dictionary.symbols)
    order = batch["id"].argsort()
    tokens = rows[batch["net_input"]["src_tokens"]][order]
    assert tokens.tolist() == encoded["input_ids"]
    assert tokens.shape[1] == positions
    with torch.no_grad():
        theirs = model(**{name: torch.tensor(value) for name, value in encoded.items()}).logits
        head = task.cfg.classification_head_name
        logits, _ = ours(**batch["net_input"], features_only=True, classification_head_name=head)
    assert [model.config.id2label[number] for number in range(2)] == list(TASKS["RTE"].labels)
    assert theirs.std() > 0.01
    assert values.tolist() == theirs.argmax(1).tolist()
    torch.testing.assert_close(logits[order], theirs, atol=1e-5, rtol=0)
