"""Trains a SentencePiece model on text files, for models that start from scratch."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --inputs, --output, --vocab-size, --model-type, --character-coverage and --sentences."""
    parser.add_argument(
        "--inputs", type=Path, nargs="+", action="extend", required=True, metavar="FILE", help="UTF-8 text"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help=".model file to write")
    parser.add_argument("--vocab-size", type=int, default=32_000, metavar="N", help="pieces (default: 32000)")
    parser.add_argument("--model-type", default="unigram", help="unigram or bpe (default: unigram)")
    parser.add_argument(
        "--character-coverage",
        type=float,
        default=0.9995,
        metavar="SHARE",
        help="share of the text's characters that get a piece (default: 0.9995; 1 for small alphabets)",
    )
    parser.add_argument(
        "--sentences", type=int, default=1_000_000, metavar="N", help="lines to learn from (default: 1000000)"
    )


def run(args: argparse.Namespace) -> None:
    """Trains and prints how many symbols there are."""
    from ...data.train_sentencepiece import train_sentencepiece

    symbols = train_sentencepiece(
        args.inputs,
        args.output,
        args.vocab_size,
        model_type=args.model_type,
        character_coverage=args.character_coverage,
        sentences=args.sentences,
    )
    print(f"{args.output}: {symbols:,} symbols")
