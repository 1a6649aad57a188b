"""How far the gradient of two halves of a batch, as fairseq's --update-freq 2 adds them up, is from that of the whole.

    python benchmarks/micro_batches.py [--batches 20]

A small model without dropout on random data (:mod:`steps`); the difference is the norm of the gradients' difference
over the norm of the whole batch's gradient, over all parameters. Two workers with a half each are the same sum.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from fairseq.trainer import Trainer
from steps import build_trainer, first_batches, where, write_data

import truneg_fairseq

SIZES = """
--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2 --dropout 0
--attention-dropout 0 --max-positions 128
""".split()
BERT = ["--task", "masked_lm", "--sample-break-mode", "none", "--arch", "roberta_base", "--optimizer", "adam", *SIZES]
BERT += ["--criterion", "masked_lm_true_neg"]
ELECTRA = ["--task", "electra_pretraining", "--arch", "electra_tiny", "--optimizer", "electra_adam", *SIZES]
ELECTRA += ["--criterion", "electra"]
VARIANTS: dict[str, tuple[str, ...]] = {
    "masked LM alone": (*BERT,),
    "SR-word": (*BERT, "--sr-word-weight", "1"),
    "synonym smoothing": (*BERT, "--soft-targets", "table=0.1"),
    "SR-sent": (*BERT, "--sr-sent-weight", "1"),
    "ELECTRA": (*ELECTRA,),
}


def gradient(trainer: Trainer, samples: list[dict[str, Any]]) -> torch.Tensor:
    """The gradient of some micro-batches as fairseq's trainer makes it: a sum, divided by the sum of sample sizes."""
    trainer.model.zero_grad()
    size = 0
    for sample in samples:
        torch.manual_seed(1)
        loss, sample_size, _ = trainer.criterion(trainer.model, sample)
        loss.backward()
        size += int(sample_size)
    parts = [p.grad.to_dense().flatten() for p in trainer.model.parameters() if p.grad is not None]
    return torch.cat(parts) / size


def halves(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a batch in two batches."""
    rows = len(sample["target"])
    found = []
    for part in (slice(0, rows // 2), slice(rows // 2, rows)):
        inner = {"src_tokens": sample["net_input"]["src_tokens"][part]}
        found.append({**sample, "net_input": inner, "target": sample["target"][part], "nsentences": rows // 2})
    return found


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20, metavar="N", help="default: 20")
    args = parser.parse_args()
    args.device, args.precision, args.batch_size, args.tokens_per_sample = "cpu", "fp32", 8, 128
    truneg_fairseq.register()
    print(where("cpu"))
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name), lines=6_000)
        for variant, flags in VARIANTS.items():
            trainer = build_trainer(Path(name), args, *flags)
            # The samples of a half are drawn from other random numbers than those of the whole: fix them.
            if hasattr(trainer.criterion, "sample_replacements"):
                trainer.criterion.sample_replacements = lambda judged: (judged.gold * 7) % 30_000 + 4
            differences = []
            for sample in first_batches(trainer, args.batches):
                sample["net_input"] = {"src_tokens": sample["net_input"]["src_tokens"]}
                whole = gradient(trainer, [sample])
                differences.append(float((gradient(trainer, halves(sample)) - whole).norm() / whole.norm()))
            median, largest = statistics.median(differences), max(differences)
            print(f"{variant:20} median {median:.1e}  largest {largest:.1e}", flush=True)


if __name__ == "__main__":
    main()
