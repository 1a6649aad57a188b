"""``truneg convert``: weights between Hugging Face and fairseq."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.names import EXPORTS
from ..errors import require
from ..options import option

if TYPE_CHECKING:
    from ..convert.architecture import ModelConfig


@dataclass(frozen=True)
class FromHfOptions:
    folder: str = option(
        help="the model; of ELECTRA, the discriminator or the generator", positional=True, metavar="DIR"
    )
    data: Path = option(
        help="binarized data: dict.txt is the model's vocabulary without its special tokens; that one if DIR has none",
        metavar="DATA-BIN",
    )
    output: Path = option(help="checkpoint to write", metavar="CKPT.pt")
    generator: str | None = option(None, help="ELECTRA's generator, DIR being its discriminator", metavar="DIR")
    allow_pickle: bool = option(
        False, help="where DIR has no safetensors, read the tensors of pytorch_model.bin (torch's weights_only)"
    )


@dataclass(frozen=True)
class ToHfOptions:
    checkpoint: Path = option(help="fairseq checkpoint", positional=True, metavar="CKPT.pt")
    folder: Path = option(help="folder to make", positional=True, metavar="DIR")
    data: Path | None = option(None, help="default: the data that the checkpoint was trained on", metavar="DATA-BIN")
    part: str | None = option(
        None, help="the model within the checkpoint (default: the first of these that it has)", choices=EXPORTS
    )
    results: list[Path] = option(help="result files of this model, for its card", default_factory=list, metavar="JSONL")


def from_hf(options: FromHfOptions) -> None:
    """Hugging Face weights (BERT, ELECTRA, RoBERTa, BART) as a fairseq checkpoint.

    For fairseq-train --finetune-from-model, with the architecture flags printed at the end. DIR is a local folder with
    config.json, model.safetensors and the vocabulary, or hub:NAME. XLM-RoBERTa and CamemBERT become roberta too.
    """
    _require()
    from ..convert.from_hf import from_hf as convert
    from ..convert.hf_model import local_folder

    pickle = options.allow_pickle
    folder = local_folder(options.folder, allow_pickle=pickle)
    generator = None if options.generator is None else local_folder(options.generator, allow_pickle=pickle)
    report = convert(folder, options.data, options.output, generator=generator, allow_pickle=pickle)
    _print(str(report.output), report.config, report.parameters, report.notes)
    print("architecture flags for fairseq-train:")
    print(shlex.join(report.flags))


def to_hf(options: ToHfOptions) -> None:
    """A fairseq checkpoint (bert, electra, roberta, bart) as a Hugging Face model with tokenizer.

    For AutoModel*.from_pretrained and AutoTokenizer.from_pretrained. README.md is a model card, its licence to fill in.
    """
    _require()
    from ..convert.to_hf import to_hf as convert

    report = convert(options.checkpoint, options.folder, data=options.data, part=options.part, results=options.results)
    _print(f"{report.folder} ({report.architecture})", report.config, report.parameters, report.notes)


def _require() -> None:
    require("fairseq", extra="fairseq")
    require("transformers", extra="hf")


def _print(what: str, config: ModelConfig, parameters: int, notes: tuple[str, ...]) -> None:
    print(
        f"wrote {what}: {config.layers} layers, {config.hidden_size} wide, {config.heads} heads, {config.vocab_size} "
        f"tokens, {parameters / 1e6:.1f} M parameters"
    )
    for note in notes:
        print(f"note: {note}")


COMMANDS = {"": "Convert weights between Hugging Face and fairseq.", "from-hf": from_hf, "to-hf": to_hf}
