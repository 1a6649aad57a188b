"""The example script in a process of its own: it trains on text files, evaluates, saves, and what it saves loads."""

from __future__ import annotations

import json
import sys

import pytest
from support.commands import REPOSITORY, run_command
from support.hf_models import LINES, small_model, small_tokenizer

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

SCRIPT = REPOSITORY / "user_dir_examples" / "huggingface" / "train.py"


@pytest.fixture
def model(tmp_path):
    small_model("BertForMaskedLM").save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_the_example_trains_evaluates_and_saves(tmp_path, model):
    text, own = tmp_path / "text", tmp_path / "own.tsv"
    text.write_text("\n".join(LINES * 6), encoding="utf-8")
    own.write_text("cat\tdog\nbig\tred\nmat\thouse\n", encoding="utf-8")
    synonyms = ["--hc_weight", 1, "--synonym_source", "tsv", "--synonym_tsv", own, "--tokenization", "wordpiece"]
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


def test_missing_text_is_one_line(tmp_path, model):
    command = [sys.executable, SCRIPT, "--model", model, "--output_dir", tmp_path / "out"]
    result = run_command(command, check=False, fresh=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "truneg_fairseq: error: --train: expected text files, or --dataset in their place"
    )
