"""Convert weights between Hugging Face and fairseq."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.names import EXPORTS
from ..extras import require

if TYPE_CHECKING:
    from ..convert.config import ModelConfig

_FROM_HF = """Hugging Face weights (BERT, ELECTRA, RoBERTa) as a fairseq checkpoint.

For fairseq-train --finetune-from-model, with the architecture flags printed at the end. DIR is a local folder with
config.json, model.safetensors and the vocabulary, or hub:NAME."""
_TO_HF = """A fairseq checkpoint (bert, electra, roberta) as a Hugging Face model with tokenizer.

For AutoModel*.from_pretrained and AutoTokenizer.from_pretrained. README.md is a model card, its licence to fill in."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One subcommand a direction."""
    directions = parser.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    from_hf = directions.add_parser("from-hf", help=_FROM_HF.splitlines()[0], description=_FROM_HF)
    from_hf.add_argument("folder", metavar="DIR", help="the model; of ELECTRA, the discriminator or the generator")
    from_hf.add_argument("--generator", metavar="DIR", help="ELECTRA's generator, DIR being its discriminator")
    from_hf.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="DATA-BIN",
        help="binarized data: dict.txt is the model's vocabulary without its special tokens; that one if DIR has none",
    )
    from_hf.add_argument("--output", type=Path, required=True, metavar="CKPT.pt", help="checkpoint to write")
    from_hf.add_argument(
        "--allow-pickle",
        action="store_true",
        help="where DIR has no safetensors, read the tensors of pytorch_model.bin (torch's weights_only)",
    )
    from_hf.set_defaults(convert=_from_hf)

    to_hf = directions.add_parser("to-hf", help=_TO_HF.splitlines()[0], description=_TO_HF)
    to_hf.add_argument("checkpoint", type=Path, metavar="CKPT.pt", help="fairseq checkpoint")
    to_hf.add_argument("folder", type=Path, metavar="DIR", help="folder to make")
    to_hf.add_argument(
        "--data", type=Path, metavar="DATA-BIN", help="default: the data that the checkpoint was trained on"
    )
    to_hf.add_argument(
        "--part", choices=EXPORTS, help="the model within the checkpoint (default: the first of these that it has)"
    )
    to_hf.add_argument("--head", metavar="NAME", help="which of several classification heads to export")
    to_hf.add_argument(
        "--labels", type=Path, metavar="DICT", help="names of the classes (default: label/dict.txt in the data)"
    )
    to_hf.add_argument(
        "--results",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="JSONL",
        help="result files of this model, for its card",
    )
    to_hf.add_argument(
        "--push-to-hub", metavar="USER/NAME", help="also upload the folder (a new repository is private)"
    )
    to_hf.set_defaults(convert=_to_hf)


def run(args: argparse.Namespace) -> None:
    """Runs the chosen direction."""
    require("fairseq", extra="fairseq")
    args.convert(args)


def _from_hf(args: argparse.Namespace) -> None:
    from ..convert.from_hf import from_hf
    from ..convert.hf_files import local_folder

    folder = local_folder(args.folder, allow_pickle=args.allow_pickle)
    generator = None if args.generator is None else local_folder(args.generator, allow_pickle=args.allow_pickle)
    report = from_hf(folder, args.data, args.output, generator=generator, allow_pickle=args.allow_pickle)
    _print(str(report.output), report.config, report.parameters, report.notes)
    print("architecture flags for fairseq-train:")
    print(shlex.join(report.flags))


def _to_hf(args: argparse.Namespace) -> None:
    from ..convert.card import push
    from ..convert.to_hf import to_hf

    options = {name: getattr(args, name) for name in ("data", "part", "head", "labels", "results")}
    report = to_hf(args.checkpoint, args.folder, **options)
    _print(f"{report.folder} ({report.architecture})", report.config, report.parameters, report.notes)
    if args.push_to_hub is not None:
        print(f"uploaded to {push(report.folder, args.push_to_hub)}")


def _print(what: str, config: ModelConfig, parameters: int, notes: tuple[str, ...]) -> None:
    print(
        f"wrote {what}: {config.layers} layers, {config.hidden_size} wide, {config.heads} heads, {config.vocab_size} "
        f"tokens, {parameters / 1e6:.1f} M parameters"
    )
    for note in notes:
        print(f"note: {note}")
