"""Estimate the memory of a pre-training update: does the batch fit?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import TrueNegError

if TYPE_CHECKING:
    from ..models.memory import ModelSize


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model, the batch, the precision and the objectives; the names are those of fairseq-train."""
    parser.add_argument("--arch", required=True, metavar="NAME", help="bert_... or electra_..., e.g. electra_small")
    parser.add_argument("--batch-size", type=int, required=True, metavar="N", help="sequences on one device")
    parser.add_argument("--tokens-per-sample", type=int, default=512, metavar="N", help="of a sequence (default: 512)")
    parser.add_argument("--mask-prob", type=float, default=0.15, metavar="P", help="share masked (default: 0.15)")
    parser.add_argument(
        "--vocabulary-size",
        type=int,
        default=30_522,
        metavar="N",
        help="lines of dict.txt and 5 special symbols (default: BERT's 30522)",
    )
    parser.add_argument("--update-freq", type=int, default=1, metavar="N", help="batches an update (default: 1)")
    parser.add_argument("--bf16", action="store_true", help="bf16 with fp32 copies (default: fp32)")
    parser.add_argument("--sr-word", action="store_true", help="with word-level soft regularization")
    parser.add_argument("--sr-sent", action="store_true", help="with sentence-level soft regularization")


def run(args: argparse.Namespace) -> None:
    """Prints what is held while an update begins and the peak, on a CPU and with fused attention."""
    from ..models.memory import BatchSize, parameter_count, predict_peak

    for flag in ("batch_size", "tokens_per_sample", "vocabulary_size", "update_freq"):
        if getattr(args, flag) < 1:
            name = flag.replace("_", "-")
            raise TrueNegError(f"--{name}: found {getattr(args, flag)}, expected a number >= 1")
    if not 0 < args.mask_prob < 1:
        raise TrueNegError(f"--mask-prob: found {args.mask_prob}, expected a share between 0 and 1")
    model = _model_size(args.arch, args.vocabulary_size, args.tokens_per_sample)
    masked = round(args.batch_size * args.tokens_per_sample * args.mask_prob)
    batch = BatchSize(args.batch_size, args.tokens_per_sample, masked)
    precision = "bf16" if args.bf16 else "fp32"
    plain, fused = (
        predict_peak(size, batch, precision, sr_word=args.sr_word, sr_sent=args.sr_sent, update_freq=args.update_freq)
        for size in (model, model.with_fused_attention())
    )
    print(f"{args.arch}: {parameter_count(model):,} parameters, {precision}")
    times = f"{args.update_freq} x " if args.update_freq > 1 else ""
    print(f"an update of {times}{args.batch_size} x {args.tokens_per_sample} tokens, {masked:,} masked in a batch:")
    print(f"when an update begins: {plain.held / 1e9:.2f} GB")
    print(f"at the peak: {plain.total / 1e9:.2f} GB on a CPU")
    print(f"at the peak: {fused.total / 1e9:.2f} GB with fused attention, as on a GPU (not measured yet)")
    print("The libraries and the allocator's reserve come on top. fairseq-train on a GPU logs what is left as gb_free.")


def _model_size(arch: str, vocabulary: int, length: int) -> ModelSize:
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY

    from .. import register
    from ..models.memory import ModelSize

    register()
    kind = ARCH_MODEL_NAME_REGISTRY.get(arch)
    if kind not in ("bert", "electra"):
        known = sorted(name for name, model in ARCH_MODEL_NAME_REGISTRY.items() if model in ("bert", "electra"))
        raise TrueNegError(f"--arch: found {arch!r}, expected one of {', '.join(known)}")
    arguments = argparse.Namespace(max_positions=max(512, length))
    ARCH_CONFIG_REGISTRY[arch](arguments)
    return ModelSize.from_arguments(arguments, vocabulary, detection=kind == "electra")
