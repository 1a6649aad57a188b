"""SQuAD through truneg finetune: training, predictions, the settings, bad input."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support.cli_runs import assert_keys_are_known
from support.commands import REPOSITORY, run_command
from support.finetunings import count_trainings, validations
from support.glue_files import write_model
from support.squad_examples import STRIDE, one_line, prepare, write_data

import truneg_fairseq
from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning import FinetuneOptions, squad
from truneg_fairseq.finetuning.run_finetuning import check
from truneg_fairseq.finetuning.squad_features import SquadFeatures
from truneg_fairseq.results.result import read_results

truneg_fairseq.register()
OPTIONS = ("--cpu", "--batch-size", 8, "--lr", 0.003, "--layer-lr-decay", 1, "--seeds", 1, "--keep-models")


@pytest.fixture(autouse=True)
def short_stride(monkeypatch):
    """As the features have it."""
    monkeypatch.setattr(squad, "DOC_STRIDE", STRIDE)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("vocabulary") / "data-bin")


@pytest.fixture(scope="module")
def features(tmp_path_factory, data) -> Path:
    return prepare(tmp_path_factory.mktemp("squad"), data)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, data) -> Path:
    """A random electra with its masked-LM head."""
    return write_model(tmp_path_factory.mktemp("baseline"), data, "ElectraForMaskedLM", "checkpoint_last.pt")


def train(checkpoint: Path, features: Path, output: Path, *arguments: object) -> list[object]:
    """The words of a fine-tuning whose model is named electra."""
    flags = (f"electra={checkpoint}", "--prepared", features.parent, "--output", output, *OPTIONS)
    return ["finetune", *flags, *arguments]


def printed_by(*words: object) -> str:
    """What a truneg command prints, in this process; its trainings are forked."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        count_trainings(patch)
        main([str(word) for word in words])
    return printed.getvalue()


def error(*words: object) -> str:
    return one_line(lambda: printed_by(*words))


@pytest.fixture(scope="module")
def finetuned(pretrained, features, tmp_path_factory) -> tuple[Path, str]:
    """The folder of a run and what its command printed."""
    output = tmp_path_factory.mktemp("run")
    printed = printed_by(*train(pretrained, features, output, "--epochs", 5))
    return output / "runs" / "electra" / "SQuAD-1", printed


def test_predictions_score_as_the_validation_did(finetuned, pretrained, features, tmp_path):
    folder, printed = finetuned
    shown = validations(folder)
    valid = features.parents[1] / "valid.json"
    final = json.loads(printed_by("score", valid, folder / "predictions.json"))
    assert [step["num_updates"] for step in shown] == [25, 50, 75, 100, 125]
    assert {name: shown[-1][name] for name in final} == pytest.approx(final, rel=1e-5)
    assert re.search(rf"^electra +{final['exact_match']:.2f} +{final['f1']:.2f}$", printed, re.MULTILINE)
    (result,) = read_results([folder.parents[2] / "results.jsonl"])
    assert {name: 100 * value for name, value in result.metrics.items()} == pytest.approx(final)
    assert (result.group, [metric.title for metric in result.shown.values()]) == ("SQuAD 1.1", ["EM", "F1"])
    assert len(result.example_ids) == len(result.examples["f1"]) == 24
    assert 0 < result.wall_seconds < 300 and result.peak_memory_mb > 50
    assert (result.settings["lr"], result.settings["checkpoint"]) == (0.003, str(pretrained.resolve()))
    assert result.settings["data"] == json.loads((features / "info.json").read_text())["sources"]
    assert final["f1"] > 40
    assert len({step["f1"] for step in shown}) > 1
    predictions = tmp_path / "predictions.json"
    said = printed_by("predict", folder / "model.pt", valid, "--output", predictions, "--cpu")
    assert json.loads(said) == {"examples": 24, **final}
    assert predictions.read_text() == (folder / "predictions.json").read_text()


def test_the_models_that_an_experiment_has_kept_are_attacked(finetuned, features, tmp_path):
    (squad := tmp_path / "runs" / "hc" / "seed-4" / "squad").mkdir(parents=True)
    (squad / "SQuAD-1").symlink_to(finetuned[0].parents[2])  # as test_user_dir.py has the folder of a fine-tuning
    attacked, results = tmp_path / "attacked.json", tmp_path / "attacks.jsonl"  # behind a "-" is the name of a variant
    attacked.write_text((features.parents[1] / "valid.json").read_text().replace("valid-", "valid_").replace("-0", ""))
    given = ("--experiment", squad, "--attacked", attacked, "--results", results, "--cpu")
    run_command([sys.executable, REPOSITORY / "user_dir_examples" / "attacks" / "score.py", attacked, *given])
    assert {each.key for each in read_results([results])} == {("hc", "attacked", 4)}


def test_predict_names_the_program_that_scores_its_answers(finetuned, features, tmp_path, capsys):
    """A file of Jia and Liang, with variants of questions, has one of its own."""
    valid, varied, answers = features.parents[1] / "valid.json", tmp_path / "varied.json", tmp_path / "answers.json"
    file = json.loads(valid.read_text())
    questions = file["data"][0]["paragraphs"][0]["qas"]
    questions += [{**questions[0], "id": name} for name in ("first", "first-turk")]
    varied.write_text(json.dumps(file))
    for data, program in ((valid, "truneg score"), (varied, "python user_dir_examples/attacks/score.py")):
        printed_by("predict", finetuned[0] / "model.pt", data, "--output", answers, "--cpu")
        assert f"next: {program} {data} {answers}\n" in capsys.readouterr().err
    assert "varied.json: is a file of Jia and Liang; score it with" in error("score", varied, answers)


@pytest.mark.slow
def test_squad_2(pretrained, data, tmp_path):
    """Trained, answered, scored; and what --prepared and the threshold change."""
    features = prepare(tmp_path / "squad2", data, 60, unanswerable=True)
    valid = tmp_path / "squad2" / "valid.json"
    printed_by(*train(pretrained, features, tmp_path, "--epochs", 8, "--lr", 0.001))
    folder = tmp_path / "runs/electra/SQuAD-1"
    official = json.loads(printed_by("score", valid, folder / "predictions.json"))
    (result,) = read_results([tmp_path / "results.jsonl"])
    assert (result.task, result.group) == ("SQuAD 2.0", "SQuAD 2.0")
    assert (official["exact"], official["f1"]) == pytest.approx([100 * each for each in result.metrics.values()])
    moved = features.rename(tmp_path / "moved")
    words = ("predict", folder / "model.pt", valid, "--cpu")
    assert f"was trained on {features}, which is not a folder here; name it with --prepared" in error(*words)
    probabilities, answers = tmp_path / "probabilities.json", tmp_path / "answers.json"
    threshold: float = 1
    for expected in (0, 24, 12):
        options = ("--prepared", moved, "--threshold", threshold, "--na-prob-file", probabilities)
        printed_by(*words, *options, "--output", answers)
        assert sum(text == "" for text in json.loads(answers.read_text()).values()) == expected
        chances = sorted(json.loads(probabilities.read_text()).values())
        threshold = 0 if expected == 0 else (chances[11] + chances[12]) / 2
    best = json.loads(printed_by("score", valid, answers, "--na-prob-file", probabilities))
    assert best["best_f1"] >= official["f1"]


def test_the_settings_are_electras(pretrained, features, tmp_path):
    """What fairseq-train is given: two epochs of batches of 32 windows."""
    options = FinetuneOptions(models=[str(pretrained)], prepared=features.parent, output=tmp_path, seeds=[7], cpu=True)
    (run,) = check(options)
    updates = 2 * math.ceil(len(SquadFeatures.load(features / "train.npz")) / 32)
    expected = f"""
    --seed 7 --lr 0.0001 --layer-lr-decay 0.8 --weight-decay 0.01 --optimizer electra_adam --lr-scheduler electra_linear
    --warmup-ratio 0.1 --batch-size 32 --clip-norm 1.0 --max-epoch 2 --task squad --max-update {updates}
    --total-num-update {updates}
    """.split()
    assert set(zip(expected[::2], expected[1::2], strict=True)) <= set(itertools.pairwise(map(str, run.flags)))
    large = squad.Squad().recipe(SimpleNamespace(hidden_size=1024), {})
    assert (large.lr, large.layer_lr_decay) == (5e-5, 0.9)


@pytest.mark.parametrize(("split", "left"), [("train", None), ("valid", {"windows": 0})])
def test_data_without_a_split_are_refused_before_anything_is_trained(split, left, pretrained, features, tmp_path):
    info = json.loads((features / "info.json").read_text())
    info["splits"] |= {split: left or {}}
    (tmp_path / "SQuAD").mkdir()
    (tmp_path / "SQuAD" / "info.json").write_text(json.dumps(info))
    options = FinetuneOptions(models=[str(pretrained)], prepared=tmp_path, output=tmp_path / "out", cpu=True)
    with pytest.raises(TrueNegError, match=f"SQuAD: has no windows in {split}; expected data to train and to validate"):
        check(options)


def test_bad_input_of_predict_is_one_line(finetuned, pretrained, tmp_path):
    output, _ = finetuned
    broken = tmp_path / "broken.json"
    broken.write_text('{"version": "1.1"}')
    for checkpoint, file, message in (
        (pretrained, broken, "was trained on --task masked_lm; expected a fine-tuned model"),
        (output / "model.pt", broken, "Object missing required field data; expected SQuAD's JSON"),
    ):
        assert message in error("predict", checkpoint, file, "--output", tmp_path / "out.json", "--cpu")
    assert not (tmp_path / "out.json").exists()


def test_the_recipe_says_only_what_fairseq_knows():
    recipe = yaml.safe_load((REPOSITORY / "user_dir_examples" / "squad" / "electra.yaml").read_text())
    assert recipe.pop("model") == {"_name": "electra_base"}
    assert_keys_are_known(recipe)
