"""What the true-negative objectives cost: time of an update and peak memory, as ratios to training without them.

    python benchmarks/objectives.py [--style electra] [--variants false-negatives] [--device cuda] [--precision fp16]
    python benchmarks/objectives.py --style generation

The same model, data and seed for each objective. In BERT's style the model is stock RoBERTa code of ELECTRA-small's
width and depth, and the base is stock masked_lm; in ELECTRA's it is electra_small, and the base is its criterion with
every weight 0. For generation it is a decoder of 6 layers of 512 over 10,000 words, as translation has, and the base is
stock label_smoothed_cross_entropy. The data are random (:mod:`steps`), the words of the dictionary made of letters, so
that detectors judge all of them.
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
from truneg_fairseq.corpus_counts import CountOptions, count_corpus

BERT = """
--task masked_lm --sample-break-mode none --optimizer adam --arch roberta_base --encoder-layers 12
--encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4 --max-positions 512
""".split()
ELECTRA = "--task electra_pretraining --optimizer electra_adam --arch electra_small --criterion electra".split()
GENERATION = """
--task language_modeling --sample-break-mode none --optimizer adam --arch transformer_lm --decoder-layers 6
--decoder-embed-dim 512 --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4 --share-decoder-input-output-embed
--label-smoothing 0.1
""".split()
GENERATION_WORDS = 10_000
HC = ("--hc-weight", "1")
OBJECTIVES: dict[str, tuple[str, ...]] = {
    "HC": HC,
    "SR-word": ("--sr-word-weight", "1"),
    "HC + SR-word": (*HC, "--sr-word-weight", "1"),
    "SR-sent": ("--sr-sent-weight", "1"),
}
FALSE_NEGATIVES: dict[str, tuple[str, ...]] = {
    "embedding": (*HC, "--hc-detector", "embedding"),
    "table+embedding": (*HC, "--hc-detector", "table+embedding"),
    "context": (*HC, "--hc-detector", "context"),
    "uniform smoothing": ("--soft-targets", "uniform=0.1"),
    "synonym smoothing": ("--soft-targets", "table=0.1"),
}
GENERATION_OBJECTIVES: dict[str, tuple[str, ...]] = {
    "no share": (),
    "HC": HC,
    "SR-word": ("--sr-word-weight", "1"),
    "synonyms": ("--soft-targets", "table:flat=0.1"),
    "corpus": ("--soft-targets", "corpus=0.1"),
}
VARIANTS = {"objectives": OBJECTIVES, "false-negatives": FALSE_NEGATIVES}


def variants_of(style: str, names: str) -> dict[str, tuple[str, ...]]:
    """The flags of each contender by its name, the base first."""
    if style == "generation":
        ours = (*GENERATION, "--criterion", "label_smoothed_true_neg")
        more = {name: (*ours, *flags) for name, flags in GENERATION_OBJECTIVES.items()}
        return {"label_smoothed_cross_entropy": (*GENERATION, "--criterion", "label_smoothed_cross_entropy"), **more}
    more = VARIANTS[names]
    if style == "electra":
        return {"electra": tuple(ELECTRA), **{name: (*ELECTRA, *flags) for name, flags in more.items()}}
    bert = {name: (*BERT, "--criterion", "masked_lm_true_neg", *flags) for name, flags in more.items()}
    return {"masked_lm (stock)": (*BERT, "--criterion", "masked_lm"), **bert}


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--style", choices=("bert", "electra", "generation"), default="bert")
    parser.add_argument("--variants", choices=sorted(VARIANTS), default="objectives", help="default: objectives")
    parser.add_argument("--only", metavar="NAMES", help="these contenders beside the base, with commas between them")
    add_arguments(parser, batch_size=16, precisions=("fp32", "fp16", "bf16"))
    args = parser.parse_args()
    truneg_fairseq.register()
    with tempfile.TemporaryDirectory() as name:
        if args.style == "generation":
            write_data(Path(name), words=GENERATION_WORDS)
            count_corpus(CountOptions(data=Path(name)))
        else:
            write_data(Path(name))
        variants = variants_of(args.style, args.variants)
        base = next(iter(variants))
        if args.only:
            names = args.only.split(",")
            if unknown := set(names) - set(variants):
                parser.error(f"--only {args.only}: found {', '.join(unknown)}, expected {', '.join(variants)}")
            variants = {name: variants[name] for name in (base, *names)}
        trainers = {variant: build_trainer(Path(name), args, *flags) for variant, flags in variants.items()}
        samples = first_batches(next(iter(trainers.values())), args.warmup + args.updates)
        steps = {variant: step_of(trainer) for variant, trainer in trainers.items()}
        times = take_turns(steps, samples, args)
        peaks = {}
        for variant, step in steps.items():
            trainers[variant].zero_grad()  # as the step begins: what was there before it is not counted
            peaks[variant] = peak_bytes(step, samples[0], args.device)
    print(where(args.device))
    memory = {variant: f"{peak / 2**20:,.0f} MiB {peak / peaks[base]:.3f}" for variant, peak in peaks.items()}
    print_table(times, base, {"peak memory": memory})


if __name__ == "__main__":
    main()
