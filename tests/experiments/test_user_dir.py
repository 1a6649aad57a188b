"""A yardstick and a fine-tuning task of a user's own, by --user-dir, to the results of an experiment."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from support.cli_runs import assert_one_line
from support.commands import PIECES, WORDS, run_command, truneg
from support.glue_files import write_official

from truneg_fairseq.commands.main import main
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, wordpiece_tokenizer
from truneg_fairseq.results.result import read_results

YARDSTICK = """
import numpy as np
from truneg_fairseq import register_yardstick
from truneg_fairseq.evaluation.yardstick import Scores, Yardstick
from truneg_fairseq.results.intervals import Ratio
from truneg_fairseq.results.result import Metric

@register_yardstick("certainty")
class Certainty(Yardstick):
    metrics = {"p": Metric("p", True)}

    def score(self, scorer):
        lines = self._task.paths[0].read_text().splitlines()
        found = scorer.rows([self._tokens.next_word(each) for each in self._tokens.encode_batch(lines)])
        best = {index: float(np.exp(row.max())) for index, row in found}
        return {"certainty": Scores({"p": Ratio(np.array([best[k] for k in sorted(best)]), np.ones(len(best)))}, lines)}
"""
TASK = """
from truneg_fairseq import register_task
from truneg_fairseq.finetuning.glue import Glue

@register_task("pairs")
class Pairs(Glue):
    def __init__(self):
        super().__init__("pairs", ("sentence1", "sentence2"), "label", ("entailment", "not_entailment"))
"""
FILE = """
data: DATA
model: {arch: truneg_bert_tiny}
training: {task: masked_lm, criterion: masked_lm, tokens-per-sample: 24, sample-break-mode: none, batch-size: 4,
  optimizer: adam, lr: 0.01, lr-scheduler: fixed}
updates: 2
arms: {baseline: {}}
evaluations:
  certainty: TEXT
  finetune: {mine: {prepared: PREPARED, tasks: [pairs], seeds: 1, options: {epochs: 1}}}
"""


@pytest.mark.slow
def test_an_experiment_measures_and_fine_tunes_by_ideas_of_ones_own(binarized, tmp_path):
    data, ideas, text = tmp_path / "data-bin", tmp_path / "my_ideas", tmp_path / "lines.txt"
    shutil.copytree(binarized, data)
    wordpiece_tokenizer((*BERT_SPECIALS, *WORDS, *PIECES)).save(data)
    text.write_text("the big\nthe kids walk to\n")
    ideas.mkdir()
    (ideas / "__init__.py").write_text("from . import pairs, yardstick\n")
    (ideas / "yardstick.py").write_text(YARDSTICK)
    (ideas / "pairs.py").write_text(TASK)
    official = write_official(tmp_path / "official", ["RTE"]) / "RTE"
    files = ("--data", data, "--max-length", 16, "--output-dir", tmp_path / "prepared")
    prepare = truneg("data", "prepare", "--user-dir", ideas, "--task", f"pairs={official}", *files)
    run_command(prepare)
    written = FILE.replace("DATA", str(data)).replace("TEXT", str(text)).replace("PREPARED", str(tmp_path / "prepared"))
    (tmp_path / "file.yaml").write_text(written)
    command = truneg("experiment", tmp_path / "file.yaml", "--output", tmp_path / "out", "--cpu")
    assert_one_line(run_command(command, check=False), "evaluations: certainty: found no yardstick of this name")
    assert not (tmp_path / "out").exists()

    first = run_command([*command, "--user-dir", ideas]).stdout
    assert "baseline seed 1: trained in" in first
    found = {each.task: each for each in read_results([tmp_path / "out" / "results.jsonl"])}
    assert found.keys() == {"certainty", "pairs"}
    assert len(found["certainty"].settings["yardstick certainty"]) == 64
    row = rf"^\*\*GLUE\*\*$[^*]*^\| baseline +\| +{100 * found['pairs'].metrics['accuracy']:.2f} \|"
    assert re.search(row, (tmp_path / "out" / "comparison.md").read_text(), re.MULTILINE)
    run = tmp_path / "out" / "runs" / "baseline" / "seed-1"
    tuned = json.loads((run / "mine" / "pairs-1" / "runs" / "baseline" / "pairs-1" / "settings.json").read_text())
    assert len(tuned["fine-tuning task pairs"]) == 64
    assert "certainty" not in (run / "train" / "settings.json").read_text(), "the training names neither"

    (ideas / "yardstick.py").write_text(YARDSTICK.replace("row.max()", "row.min()"))
    again = run_command([*command, "--user-dir", ideas]).stdout
    assert "trained in" not in again
    assert "certainty, baseline seed 1: done" in again
    assert "pairs 1, baseline seed 1" not in again
    (changed,) = (each for each in read_results([tmp_path / "out" / "results.jsonl"]) if each.task == "certainty")
    assert changed.metrics["p"] < found["certainty"].metrics["p"]

    (ideas / "pairs.py").write_text(f"{TASK}\n# changed\n")
    prepared = "prepared/pairs: was made with another fine-tuning task pairs; remove it and run"
    assert prepared in run_command([*command, "--user-dir", ideas], check=False).stderr
    shutil.rmtree(tmp_path / "prepared")
    run_command(prepare)
    again = run_command([*command, "--user-dir", ideas]).stdout
    assert "trained in" not in again
    assert "pairs 1, baseline seed 1: done" in again
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    assert len(lines) == 2, "one of each evaluation"


def test_a_folder_that_is_none_and_two_folders_are_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit, match=r"--user-dir .*none: found no __init__\.py in it; expected"):
        main(["evaluate", "model", "--task", "cloze=x", "--user-dir", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match=r"--user-dir none: found no __init__\.py in it"):
        main(["train", "--arch", "a", "--user-dir", "none"])
    (tmp_path / "__init__.py").write_text("import json\n")
    with pytest.raises(SystemExit, match="no file in it imports truneg_fairseq; write 'import truneg_fairseq' in its"):
        main(["train", "--arch", "a", "--user-dir", str(tmp_path)])
    with pytest.raises(SystemExit, match="--user-dir: found 2 of them; expected one"):
        main(["train", "--arch", "a", "--user-dir=a", "--user-dir", "b"])
    with pytest.raises(SystemExit):
        main(["evaluate", "model", "--task", "cloze=x", "--user-dir", "a", "--user-dir", "b"])
    assert "--user-dir: found a and b; expected one" in capsys.readouterr().err
