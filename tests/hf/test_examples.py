"""The example scripts: they train on text, evaluate, save and go on, and what they save loads."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from support.commands import REPOSITORY, run_command
from support.hf_models import LINES, options_of_list, small_model, small_tokenizer, trainer

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.hf import TrueNegativeArguments

EXAMPLES = REPOSITORY / "user_dir_examples"
FOLDER = EXAMPLES / "huggingface"


@pytest.fixture
def model(tmp_path):
    return saved(small_model(), tmp_path / "model")


def saved(model, folder):
    model.save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def run_here(tmp_path, monkeypatch):
    """A script in this process: a training of one update, on a text file unless the arguments name a data set."""
    (tmp_path / "text").write_text("\n".join(LINES * 6), encoding="utf-8")
    monkeypatch.syspath_prepend(str(FOLDER))

    def run(*arguments, script="train.py"):
        given = ["--output_dir", tmp_path / "out", "--use_cpu", "--report_to", "none", "--max_seq_length", 16]
        if "--dataset_name" not in arguments:
            given += ["--train_file", tmp_path / "text", "--validation_file", tmp_path / "text"]
        monkeypatch.setattr(sys, "argv", [script, *map(str, (*given, "--max_steps", 1, *arguments))])
        runpy.run_path(str(FOLDER / script), run_name="__main__")

    return run


def test_the_example_trains_evaluates_and_saves(tmp_path, model, run_here):
    (tmp_path / "own.tsv").write_text("cat\tdog\nbig\tred\nmat\thouse\n", encoding="utf-8")
    synonyms = [word for name, value in options_of_list(tmp_path / "own.tsv").items() for word in (f"--{name}", value)]
    options = ["--whole_words", "--final_mlm_probability", 0.3, "--mlm_probability", 0.5, "--logging_steps", 1]
    run_here("--model_name_or_path", model, "--max_steps", 3, "--hc_weight", 1, *options, *synonyms)
    metrics = json.loads((tmp_path / "out" / "eval_results.json").read_text())
    assert {"eval_loss", "eval_hc_pred", "perplexity"} <= metrics.keys()
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert all("hc_pred" in log for log in state["log_history"] if "loss" in log)
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert type(loaded).__name__ == "BertForMaskedLM"
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out").mask_token == "[MASK]"
    card = (tmp_path / "out" / "README.md").read_text()
    assert "- true-negatives" in card and "on the text dataset" in card


def test_a_dataset_in_place_of_files(tmp_path, model, run_here, monkeypatch):
    """A folder that load_dataset takes by its path."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "data").mkdir()
    for split in ("train", "validation"):
        lines = "".join(json.dumps({"sentence": line}) + "\n" for line in LINES)
        (tmp_path / "data" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    run_here("--model_name_or_path", model, "--dataset_name", tmp_path / "data", "--text_column", "sentence")
    assert (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "--model_name_or_path M --dataset_name D --train_file x",
            "--train_file: expected text files, or --dataset_name",
        ),
        ("", "--model_name_or_path: expected a model, or --config_name"),
        ("--model_name_or_path none", r"none: cannot be loaded \(.*; expected a masked LM and its tokenizer"),
        ("--model_name_or_path A", r"A: has an adapter \(adapter_config\.json\); expected a whole model alone"),
        ("--model_name_or_path M --max_seq_length 41", "--max_seq_length 41: the model has 40 positions"),
        ("--model_name_or_path M --hc_wieght 1", "--hc_wieght: found no such flag; --help lists them"),
    ],
)
def test_mistakes_are_one_line(arguments, line, model, run_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("A").mkdir()
    Path("A", "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit, match=line):
        run_here(*(model if word == "M" else word for word in arguments.split()))
    assert not (tmp_path / "out").exists()


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_command_with_random_weights_is_the_same_model(tmp_path, model, run_here):
    """Whatever was drawn before in this process; the arms begin with the same weights."""
    for name in ("first", "again"):
        run_here("--config_name", model, "--output_dir", tmp_path / name, "--max_steps", 2)
    run_here(
        "--config_name", model, "--output_dir", tmp_path / "arm", "--soft_targets", "uniform=0.1", "--learning_rate", 0
    )
    run_here("--config_name", model, "--output_dir", tmp_path / "other", "--seed", 7, "--learning_rate", 0)
    first, again, arm, other = (
        load_file(tmp_path / name / "model.safetensors") for name in ("first", "again", "arm", "other")
    )
    assert first.keys() == again.keys() and all(again[name].equal(value) for name, value in first.items())
    name = "bert.embeddings.word_embeddings.weight"
    assert (arm[name] - first[name]).abs().max() < 1e-3 < (other[name] - first[name]).abs().max()


def test_a_second_run_continues(tmp_path, model, run_here, caplog, capsys):
    run_here("--max_steps", 2, "--model_name_or_path", model)
    assert "held-out text: loss" in capsys.readouterr().out
    before = files_of(tmp_path / "out")
    run_here("--max_steps", 2, "--model_name_or_path", model)
    assert any("out: already finished, after 2 updates; a larger --max_steps" in line for line in caplog.messages)
    assert files_of(tmp_path / "out") == before and not capsys.readouterr().out
    # A kill after the last checkpoint: the rest is done, and no update more, which transformers' Trainer would make.
    (tmp_path / "out" / "trainer_state.json").unlink()
    run_here("--max_steps", 2, "--model_name_or_path", model)
    assert files_of(tmp_path / "out")[Path("model.safetensors")] == before[Path("model.safetensors")]
    assert json.loads((tmp_path / "out" / "trainer_state.json").read_text())["global_step"] == 2
    caplog.clear()
    (tmp_path / "out" / "checkpoint-3").mkdir()  # a kill within its save
    (tmp_path / "out" / "checkpoint-3" / "trainer_state.json").touch()
    run_here("--max_steps", 3, "--sr_sent_weight", 1, "--model_name_or_path", model)
    changed = [message for message in caplog.messages if "checkpoint-" in message]
    lines = ["checkpoint-3: is not whole", "continues from checkpoint-2", "max_steps 2 -> 3", "_weight 0.0 -> 1.0"]
    assert len(changed) == len(lines) and all(any(line in message for message in changed) for line in lines)
    # Another model has no part in what continues.
    other = saved(small_model("RobertaForMaskedLM"), tmp_path / "other")
    (tmp_path / "text").write_text("\n".join(LINES[::-1] * 6), encoding="utf-8")
    caplog.clear()
    run_here("--sr_sent_weight", 1, "--max_steps", 4, "--model_name_or_path", other)
    assert any(f"from {model}; --model_name_or_path {other} has no" in line for line in caplog.messages)
    assert "held-out text since checkpoint-3: loss" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "true_negatives.json").read_text())
    assert record["base_model"] == str(model)
    assert {change.split()[3] for change in record["changes"]} >= {"data.train", "true_negatives.sr_sent_weight"}


def test_code_of_a_model_runs_only_where_it_is_trusted(tmp_path, model, run_here, monkeypatch):
    """Also where somebody answers transformers' question with yes."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "stranger", "auto_map": {"AutoConfig": "own.Own", "AutoModelForMaskedLM": "own.Lm"}}
    (model / "config.json").write_text(json.dumps(config))
    (model / "own.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\nfrom transformers import BertConfig, BertForMaskedLM\n"
        "class Own(BertConfig):\n    model_type = 'stranger'\nclass Lm(BertForMaskedLM):\n    config_class = Own\n"
    )
    with pytest.raises(SystemExit, match=r"model: cannot be loaded \(its own code, which --trust_remote_code runs\)"):
        run_here("--model_name_or_path", model)
    options = TrueNegativeArguments(soft_targets="teacher=0.3", teacher=str(model))
    with pytest.raises(TrueNegError, match=r"--teacher .*: cannot be loaded \(The repository .* custom code"):
        trainer(small_model(), tmp_path, options)
    assert not (tmp_path / "ran").exists()
    run_here("--model_name_or_path", model, "--save_strategy", "no", "--trust_remote_code")
    assert (tmp_path / "ran").exists()


def test_a_finished_run_without_checkpoints_is_kept(tmp_path, model, run_here):
    common = ["--save_strategy", "no", "--config_name", model]
    run_here(*common)
    assert "- true-negatives" not in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "true_negatives.json").read_text())["base_model"] is None
    before = files_of(tmp_path / "out")
    run_here(*common)
    with pytest.raises(SystemExit, match=r"--output_dir .*out: holds a training without a checkpoint"):
        run_here(*common, "--max_steps", 2)
    assert files_of(tmp_path / "out") == before


@pytest.mark.slow
def test_a_sentence_encoder_and_back(tmp_path, run_here, capsys):
    import sentence_transformers

    model = saved(small_model().bert, tmp_path / "model")
    options = ["--model_name_or_path", model, "--max_steps", 2, "--learning_rate", 0.01]
    run_here(*options, script="sentence_encoder.py")
    assert "held-out text: loss" in capsys.readouterr().out
    before = files_of(tmp_path / "out")
    run_here(*options, script="sentence_encoder.py")
    assert files_of(tmp_path / "out") == before
    shutil.rmtree(tmp_path / "out" / "sentence_encoder")  # a kill before it was written
    run_here(*options, script="sentence_encoder.py")

    before = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(LINES)
    found = sentence_transformers.SentenceTransformer(str(tmp_path / "out" / "sentence_encoder"), device="cpu")
    assert abs(found.encode(LINES) - before).max() > 0.01
    # The mean of the states of the masked LM that was trained.
    trained = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out").base_model.eval()
    for line, vector in zip(LINES, found.encode(LINES), strict=True):
        with torch.no_grad():
            states = trained(torch.tensor([small_tokenizer()(line)["input_ids"]])).last_hidden_state
        assert vector == pytest.approx(states.mean(1)[0].numpy(), abs=1e-5)


WORDS = "the big cat sat on a mat and saw one small dog".split()


@pytest.mark.slow
def test_babylms_checkpoints_by_words_seen_load_without_the_package(tmp_path):
    """Of two sources, 264 words, which are cleaned."""
    run = runpy.run_path(str(EXAMPLES / "babylm" / "train.py"))["main"]
    main = lambda *arguments: run([*map(str, arguments)])  # noqa: E731
    for name in ("spoken", "books"):
        lines = [" ".join(WORDS[start:] + WORDS[:start]) for start in range(11)]
        (tmp_path / f"{name}.train").write_text("\n\n\x07 ".join(lines) + "\n", encoding="utf-8")
    text, out = tmp_path / "text", tmp_path / "out"
    main("prepare", *tmp_path.glob("*.train"), "--output", text)
    assert sorted(file.name for file in text.iterdir()) == ["books.txt", "spoken.txt"]
    assert (text / "books.txt").read_text(encoding="utf-8").splitlines() == lines
    options = ["--vocabulary", 100, "--layers", 1, "--width", 64, "--length", 16, "--million", 100, "--use_cpu"]
    options += ["--num_train_epochs", 2, "--per_device_train_batch_size", 2, "--soft_targets", "uniform=0.1"]
    main("train", text, "--output_dir", out, *options)
    before = files_of(out)
    main("train", text, "--output_dir", out, *options)  # it is finished
    assert files_of(out) == before
    main("train", text, "--output_dir", tmp_path / "again", *options)
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    # 528 words in both epochs
    assert {folder.name for folder in out.glob("chck_*")} == {f"chck_{mark}M" for mark in range(1, 6)}
    load = (
        "import sys, transformers; model = transformers.AutoModelForMaskedLM.from_pretrained(sys.argv[1]); "
        "tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1]); "
        "print(type(model).__name__, tokenizer.tokenize('the cat'), 'truneg_fairseq' in sys.modules)"
    )
    loaded = run_command([sys.executable, "-c", load, out / "chck_1M"], fresh=True)
    assert loaded.stdout.strip() == "BertForMaskedLM ['the', 'cat'] False"
    first, last = (load_file(out / name / "model.safetensors") for name in ("chck_1M", "chck_5M"))
    assert any(not first[name].equal(last[name]) for name in first)
