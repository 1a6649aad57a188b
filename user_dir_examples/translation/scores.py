"""Scores of the runs of multi30k.sh, a line of JSON each for `truneg compare`: scores.py PAIRS RUNS/ARM-SEED ..."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch

import truneg_fairseq
from truneg_fairseq.inspection.calibration import BINS, calibration_bins, expected_calibration_error

SETS = {"test": "test2016", "test1": "test2017"}


@torch.no_grad()
def teacher_forced(pairs: Path, checkpoint: Path) -> dict[str, float]:
    """Of the references of `valid`: bits per token, and the calibration error of the predicted tokens."""
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(pairs)})
    model = models[0].eval()
    task.load_dataset("valid")
    batches = task.get_batch_iterator(task.dataset("valid"), max_tokens=4096, required_batch_size_multiple=1)
    bins, bits, count = torch.zeros(3, BINS, dtype=torch.double), 0.0, 0
    for batch in batches.next_epoch_itr(shuffle=False):
        logits, _ = model(**batch["net_input"])
        counted = batch["target"].ne(task.target_dictionary.pad())
        gold, log_probs = batch["target"][counted], logits[counted].log_softmax(1)
        confidence, prediction = log_probs.exp().max(1)
        bins += calibration_bins(confidence, prediction.eq(gold))
        bits -= float(log_probs.gather(1, gold[:, None]).sum()) / math.log(2)
        count += len(gold)
    return {"bits": bits / count, "ece": expected_calibration_error(bins)}


def translated(run: Path) -> dict[str, float]:
    """BLEU and chrF, as fractions, of the sets that were translated."""
    scores = {}
    for split, name in SETS.items():
        for score in json.loads((run / f"scores.{split}.json").read_text()):
            scores[f"{score['name'].lower().removesuffix('2')}_{name}"] = score["score"] / 100
    return scores


def smoothed(run: Path) -> dict[str, float]:
    """The share of the target tokens that share their target with alternatives, at the last validation."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    values: dict[str, Any] = [line["values"] for line in lines if line["kind"] == "valid"][-1]
    return {name: float(values[name]) / 100 for name in ("smoothed", "smoothed_mass") if name in values}


if __name__ == "__main__":
    truneg_fairseq.register()
    data, *runs = map(Path, sys.argv[1:])
    for run in runs:
        arm, seed = run.name.rsplit("-", 1)
        metrics = {**translated(run), **teacher_forced(data, run / "checkpoint_best.pt"), **smoothed(run)}
        print(json.dumps({"model": arm, "task": "Multi30k", "seed": int(seed), "metrics": metrics}), flush=True)
