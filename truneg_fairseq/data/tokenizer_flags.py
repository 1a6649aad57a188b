"""The flags that name a tokenizer, for every script that cuts text."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import TrueNegError
from .tokenizer import Gpt2Tokenizer, SentencePieceTokenizer, TextTokenizer, WordPieceTokenizer, load_tokenizer

_WAYS = "--vocab, --sentencepiece-model, --gpt2-encoder-json with --gpt2-vocab-bpe, or --tokenizer-dir"


def add_tokenizer_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --vocab, --cased, --sentencepiece-model, --gpt2-encoder-json, --gpt2-vocab-bpe and --tokenizer-dir."""
    group = parser.add_argument_group("tokenizer", "one of WordPiece, SentencePiece, GPT-2 BPE, or that of other data")
    group.add_argument("--vocab", type=Path, metavar="FILE", help="WordPiece: BERT's vocab.txt")
    group.add_argument("--cased", action="store_true", help="with --vocab: keep upper case and accents")
    group.add_argument("--sentencepiece-model", type=Path, metavar="FILE", help="SentencePiece: the .model file")
    group.add_argument("--gpt2-encoder-json", type=Path, metavar="FILE", help="GPT-2 BPE: encoder.json")
    group.add_argument("--gpt2-vocab-bpe", type=Path, metavar="FILE", help="GPT-2 BPE: vocab.bpe")
    group.add_argument(
        "--tokenizer-dir", type=Path, metavar="DATA-BIN", help="the tokenizer and dict.txt of other binarized data"
    )


def tokenizer_from_arguments(args: argparse.Namespace) -> TextTokenizer:
    """The tokenizer that the flags of :func:`add_tokenizer_arguments` name."""
    given = [
        name
        for name in ("vocab", "sentencepiece_model", "gpt2_encoder_json", "tokenizer_dir")
        if getattr(args, name) is not None
    ]
    if len(given) != 1:
        found = "none" if not given else " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise TrueNegError(f"tokenizer: found {found}; expected one of {_WAYS}")
    if (args.gpt2_encoder_json is None) != (args.gpt2_vocab_bpe is None):
        raise TrueNegError("--gpt2-encoder-json and --gpt2-vocab-bpe: expected both or none")
    if args.cased and args.vocab is None:
        raise TrueNegError("--cased: belongs to --vocab; use --cased only with --vocab")
    if args.vocab is not None:
        return WordPieceTokenizer.from_vocab(args.vocab, args.cased)
    if args.sentencepiece_model is not None:
        return SentencePieceTokenizer.from_model(args.sentencepiece_model)
    if args.gpt2_encoder_json is not None:
        return Gpt2Tokenizer.from_files(args.gpt2_encoder_json, args.gpt2_vocab_bpe)
    return load_tokenizer(args.tokenizer_dir)
