"""Convert weights between Hugging Face and fairseq."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

_FROM_HF = """Hugging Face BERT weights as a fairseq roberta checkpoint.

For fairseq-train --finetune-from-model, with the architecture flags printed at the end. Token type 0 is folded into the
positions (exact for single segments), and LayerNorm's eps becomes fairseq's 1e-5."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand a direction."""
    directions = parser.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    from_hf = directions.add_parser("from-hf", help=_FROM_HF.splitlines()[0], description=_FROM_HF)
    from_hf.add_argument(
        "folder", type=Path, metavar="DIR", help="local folder with config.json, model.safetensors and vocab.txt"
    )
    from_hf.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="DATA-BIN",
        help="binarized data: dict.txt is the BERT vocabulary without its special tokens; vocab.txt if DIR has none",
    )
    from_hf.add_argument("--output", type=Path, required=True, metavar="CKPT.pt", help="checkpoint to write")
    from_hf.set_defaults(convert=_from_hf)


def run(args: argparse.Namespace) -> None:
    """Runs the chosen direction."""
    args.convert(args)


def _from_hf(args: argparse.Namespace) -> None:
    from ..convert.bert import convert_bert

    report = convert_bert(args.folder, args.data, args.output)
    config = report.config
    print(
        f"wrote {report.output}: {config.num_hidden_layers} layers, {config.hidden_size} wide, "
        f"{config.num_attention_heads} heads, {config.vocab_size} tokens, {report.parameters / 1e6:.1f} M parameters"
    )
    for note in report.notes:
        print(f"note: {note}")
    print("architecture flags for fairseq-train:")
    print(shlex.join(report.flags))
