"""The example script in a process of its own: it trains on text files, evaluates, saves, and what it saves loads."""

from __future__ import annotations

import json
import runpy
import sys

import pytest
from support.commands import REPOSITORY, run_command
from support.hf_models import LINES, PAD, ROWS, small_model, small_tokenizer, table_of_list

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

SCRIPT = REPOSITORY / "user_dir_examples" / "huggingface" / "train.py"


@pytest.fixture
def model(tmp_path):
    small_model("BertForMaskedLM").save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_the_example_trains_evaluates_and_saves(tmp_path, model):
    text, own = tmp_path / "text", tmp_path / "own.tsv"
    text.write_text("\n".join(LINES * 6), encoding="utf-8")
    own.write_text("cat\tdog\nbig\tred\nmat\thouse\n", encoding="utf-8")
    from truneg_fairseq.hf import vocabulary_of

    table = table_of_list(own, vocabulary_of(small_tokenizer(), "wordpiece", ROWS))
    synonyms = ["--hc_weight", 1, "--synonym_table", table, "--tokenization", "wordpiece"]
    short = ["--max_steps", 3, "--tokens_per_sample", 16, "--mask_prob", 0.3, "--use_cpu", "--report_to", "none"]
    files = ["--train", text, "--valid", text, "--output_dir", tmp_path / "out"]
    command = [sys.executable, SCRIPT, "--model", model, *files, *synonyms, *short, "--logging_steps", 1]
    run_command(command, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}, fresh=True)
    metrics = json.loads((tmp_path / "out" / "eval_results.json").read_text())
    assert {"eval_loss", "eval_hc_pred", "perplexity"} <= metrics.keys()
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert all("hc_pred" in log for log in state["log_history"] if "loss" in log)
    loaded = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert type(loaded).__name__ == "BertForMaskedLM"
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out").mask_token == "[MASK]"
    assert (tmp_path / "out" / "README.md").exists()


def run_here(monkeypatch, *arguments):
    """The script in this process."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A folder that load_dataset takes by its path."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "validation"):
        path = tmp_path / "dataset" / f"{split}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"sentence": line}) + "\n" for line in LINES), encoding="utf-8")
    return tmp_path / "dataset"


@pytest.mark.parametrize(("kind", "longest"), [("BertForMaskedLM", 40), ("RobertaForMaskedLM", 40 - PAD - 1)])
def test_samples_are_no_longer_than_the_positions(kind, longest, tmp_path, monkeypatch):
    small_model(kind).save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "text").write_text("\n".join(LINES * 40), encoding="utf-8")
    arguments = ["--model", tmp_path / "model", "--train", tmp_path / "text", "--valid", tmp_path / "text"]
    arguments += ["--output_dir", tmp_path / "out", "--max_steps", 1, "--use_cpu", "--report_to", "none"]
    line = rf"--tokens_per_sample {longest + 1}: the model has {longest} positions; expected no more"
    with pytest.raises(SystemExit, match=line):
        run_here(monkeypatch, *arguments, "--tokens_per_sample", longest + 1)
    run_here(monkeypatch, *arguments, "--tokens_per_sample", longest)
    assert (tmp_path / "out" / "trainer_state.json").exists()


def test_a_dataset_in_place_of_files(tmp_path, model, dataset, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    common = ["--model", model, "--output_dir", tmp_path / "out", "--dataset", dataset, "--tokens_per_sample", 16]
    common += ["--max_steps", 1, "--use_cpu", "--report_to", "none"]
    run_here(monkeypatch, *common, "--text_column", "sentence")
    (state,) = (tmp_path / "out").glob("trainer_state.json")
    assert json.loads(state.read_text())["global_step"] == 1
    for arguments, message in (
        (common, "--text_column text: not in --dataset .*, expected one of sentence"),
        ([*common, "--dataset", tmp_path / "absent"], "--dataset .*absent: train cannot be loaded"),
        ([*common, "--train", dataset / "train.jsonl"], "--train: expected text files, or --dataset in their place"),
    ):
        with pytest.raises(SystemExit, match=message) as caught:
            run_here(monkeypatch, *arguments)
        assert "\n" not in str(caught.value)
