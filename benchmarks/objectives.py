"""What the true-negative objectives cost: time of an update and peak memory, as ratios to training without them.

    python benchmarks/objectives.py [--style electra] [--device cuda] [--precision fp16] [--batch-size 128]

The same model, data and seed for each objective. In BERT's style the model is stock RoBERTa code of ELECTRA-small's
width and depth, and the base is stock masked_lm; in ELECTRA's it is electra_small, and the base is its criterion with
every weight 0. The data are random (:mod:`steps`).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from steps import (
    add_arguments,
    build_trainer,
    first_batches,
    peak_bytes,
    print_table,
    step_of,
    take_turns,
    where,
    write_data,
)

import truneg_fairseq

BERT = """
--task masked_lm --sample-break-mode none --optimizer adam --arch roberta_base --encoder-layers 12
--encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4 --max-positions 512
""".split()
ELECTRA = "--task electra_pretraining --optimizer electra_adam --arch electra_small --criterion electra".split()
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "bert": {
        "masked_lm (stock)": (*BERT, "--criterion", "masked_lm"),
        "HC": (*BERT, "--criterion", "masked_lm_hc"),
        "SR-word": (*BERT, "--criterion", "masked_lm_sr_word"),
        "HC + SR-word": (*BERT, "--criterion", "masked_lm_true_neg", "--hc-weight", "1", "--sr-word-weight", "1"),
        "SR-sent": (*BERT, "--criterion", "masked_lm_sr_sent"),
    },
    "electra": {
        "electra": (*ELECTRA,),
        "HC": (*ELECTRA, "--hc-weight", "1"),
        "SR-word": (*ELECTRA, "--sr-word-weight", "1"),
        "HC + SR-word": (*ELECTRA, "--hc-weight", "1", "--sr-word-weight", "1"),
        "SR-sent": (*ELECTRA, "--sr-sent-weight", "1"),
    },
}


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--style", choices=sorted(VARIANTS), default="bert")
    add_arguments(parser, batch_size=16, precisions=("fp32", "fp16", "bf16"))
    args = parser.parse_args()
    truneg_fairseq.register()
    variants = VARIANTS[args.style]
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        trainers = {variant: build_trainer(Path(name), args, *flags) for variant, flags in variants.items()}
        samples = first_batches(next(iter(trainers.values())), args.warmup + args.updates)
        steps = {variant: step_of(trainer) for variant, trainer in trainers.items()}
        times = take_turns(steps, samples, args)
        peaks = {variant: peak_bytes(step, samples[0], args.device) for variant, step in steps.items()}
    base = next(iter(variants))
    print(where(args.device))
    memory = {variant: f"{peak / 2**20:,.0f} MiB {peak / peaks[base]:.3f}" for variant, peak in peaks.items()}
    print_table(times, base, {"peak memory": memory})


if __name__ == "__main__":
    main()
