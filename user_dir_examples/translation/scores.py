"""Scores of the runs of multi30k.sh as lines of JSON for `truneg compare`:

    scores.py PAIRS RUNS/ARM-SEED ... [--others FILE ...]

Each of FILE has another description of each picture of test2016 (Multi30k's test_2016_other.1.en and so on). With them
test2016 is scored a second time: words that other people use count too.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import sacrebleu
import torch

import truneg_fairseq
from truneg_fairseq.evaluation.held_out import BINS, bin_of
from truneg_fairseq.results.result import BITS, GENERATED, Metric, Result

SETS = {"test": "test2016", "test1": "test2017"}
SHOWN = {"bits": Metric(BITS, False, BITS), "bleu": Metric("BLEU", True), "chrf": Metric("chrF", True)}


@torch.no_grad()
def teacher_forced(pairs: Path, checkpoint: Path) -> dict[str, float]:
    """Of the references of `valid`: bits per token, and the calibration error of the predicted tokens."""
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(pairs)})
    model = models[0].eval()
    task.load_dataset("valid")
    batches = task.get_batch_iterator(task.dataset("valid"), max_tokens=4096, required_batch_size_multiple=1)
    over, bits, count = torch.zeros(BINS, dtype=torch.double), 0.0, 0
    for batch in batches.next_epoch_itr(shuffle=False):
        logits, _ = model(**batch["net_input"])
        counted = batch["target"].ne(task.target_dictionary.pad())
        gold, log_probs = batch["target"][counted], logits[counted].log_softmax(1)
        confidence, prediction = log_probs.exp().max(1)
        over.index_add_(0, bin_of(confidence), confidence.double() - prediction.eq(gold).double())
        bits -= float(log_probs.gather(1, gold[:, None]).sum()) / math.log(2)
        count += len(gold)
    return {"bits": bits / count, "ece": float(over.abs().sum()) / count}


def translated(run: Path, others: list[list[str]]) -> dict[str, dict[str, float]]:
    """BLEU and chrF, as fractions, of the sets that were translated; with other descriptions also against all."""
    found = {}
    for split, name in SETS.items():
        if not (run / f"{split}.H").exists():
            continue
        translations, references = (lines_of(run / f"{split}.{side}") for side in ("H", "T"))
        found[f"translation {name}"] = scored(translations, [references])
        if others and name == "test2016":
            found[f"translation {name}, {1 + len(others)} references"] = scored(translations, [references, *others])
    return found


def lines_of(path: Path) -> list[str]:
    """The lines of a file; splitlines() would end one at characters within a sentence too."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def scored(translations: list[str], references: list[list[str]]) -> dict[str, float]:
    return {
        name: min(1.0, score.corpus_score(translations, references).score / 100)  # a perfect BLEU is rounded up
        for name, score in {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF()}.items()
    }


def smoothed(run: Path) -> dict[str, float]:
    """The share of the target tokens that share their target with alternatives, at the last validation."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    values: dict[str, Any] = [line["values"] for line in lines if line["kind"] == "valid"][-1]
    return {name: float(values[name]) / 100 for name in ("smoothed", "smoothed_mass") if name in values}


if __name__ == "__main__":
    truneg_fairseq.register()
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--others", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    others = [lines_of(path) for path in given.others]
    for run in given.runs:
        arm, seed = run.name.rsplit("-", 1)
        held_out = {**teacher_forced(given.pairs, run / "checkpoint_best.pt"), **smoothed(run)}
        for task, metrics in {GENERATED: held_out, **translated(run, others)}.items():
            shown = {name: metric for name, metric in SHOWN.items() if name in metrics}
            result = Result(model=arm, task=task, seed=int(seed), metrics=metrics, shown=shown)
            print(result.line, end="", flush=True)
