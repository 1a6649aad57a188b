"""The package's BERT against fairseq's RoBERTa of the same size and mathematics: time of a stock masked_lm update.

    python benchmarks/models.py [--size base] [--precision bf16] [--device cuda --batch-size 128]

Task and criterion are fairseq's for both; BERT has segments beside (two rows, one addition). Each has the optimizer of
its recipes: fairseq's adam for RoBERTa, electra_adam for BERT; "same optimizer" has fairseq's adam too. The data are
random (:mod:`steps`).
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import chain
from pathlib import Path

from steps import (
    add_arguments,
    build_trainer,
    first_batches,
    floors,
    print_table,
    step_of,
    take_turns,
    where,
    write_data,
)

import truneg_fairseq

SIZES = {"small": (12, 256, 1024, 4), "base": (12, 768, 3072, 12)}
NAMES = ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")
COMMON = "--task masked_lm --criterion masked_lm --sample-break-mode none --max-positions 512".split()
VARIANTS: dict[str, tuple[str, ...]] = {
    "roberta (stock)": ("--arch", "roberta_base", "--optimizer", "adam"),
    "bert": ("--arch", "truneg_bert_base", "--optimizer", "electra_adam"),
    "bert, same optimizer": ("--arch", "truneg_bert_base", "--optimizer", "adam"),
}


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="small",
        help="size: ELECTRA-small's or BERT-base's (default: small)",
    )
    add_arguments(parser, batch_size=16, precisions=("fp32", "fp16", "bf16"))
    args = parser.parse_args()
    truneg_fairseq.register()
    pairs = zip(NAMES, SIZES[args.size], strict=True)
    same = [*COMMON, *chain.from_iterable((f"--encoder-{name}", str(value)) for name, value in pairs)]
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        trainers = {variant: build_trainer(Path(name), args, *same, *flags) for variant, flags in VARIANTS.items()}
        samples = first_batches(next(iter(trainers.values())), args.warmup + args.updates)
        steps = {variant: step_of(trainer) for variant, trainer in trainers.items()}
        times = take_turns(steps, samples, args)
        floor = floors(steps, samples[0], args)
    print(where(args.device))
    print_table(times, next(iter(VARIANTS)), {"floor, ms": floor}, faster=True)


if __name__ == "__main__":
    main()
