"""``truneg convert``: weights between Hugging Face and fairseq."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ..convert.names import EXPORTS
from ..errors import TrueNegError, require
from ..options import option


@dataclass(frozen=True)
class ConvertOptions:
    source: str = option(
        help="a Hugging Face folder, hub:NAME, or a fairseq checkpoint (.pt)", positional=True, metavar="IN"
    )
    output: Path = option(help="checkpoint (.pt) or folder to make", positional=True, metavar="OUT")
    data: Path | None = option(
        None,
        help="binarized data whose dict.txt numbers the tokens; needed for a checkpoint (default for a folder: the "
        "data that the checkpoint was trained on)",
        metavar="DATA-BIN",
    )
    generator: str | None = option(None, help="ELECTRA's generator, IN being its discriminator", metavar="DIR")
    part: str | None = option(
        None, help="the model within the checkpoint (default: the first of these that it has)", choices=EXPORTS
    )
    allow_pickle: bool = option(
        False, help="where IN has no safetensors, read the tensors of pytorch_model.bin (torch's weights_only)"
    )


def convert(options: ConvertOptions) -> None:
    """Convert weights between Hugging Face and fairseq, or dictionaries.

    A Hugging Face folder (BERT, ELECTRA, RoBERTa, XLM-RoBERTa, CamemBERT) becomes a checkpoint for fairseq-train
    --finetune-from-model, with the architecture flags that it prints. A checkpoint becomes a folder for
    AutoModel*.from_pretrained, with tokenizer and model card. A checkpoint with an OUT that ends in .pt gets the
    dictionary of --data.
    """
    require("fairseq", extra="fairseq")
    require("transformers", extra="hf")
    from ..convert.from_hf import from_hf, local_folder, to_dictionary
    from ..convert.to_hf import to_hf

    source, output, data, pickle = Path(options.source), options.output, options.data, options.allow_pickle
    from_checkpoint = source.suffix == ".pt"
    if from_checkpoint and output.suffix != ".pt":
        made = to_hf(source, output, data=data, part=options.part)
    elif data is None:
        raise TrueNegError("--data: expected the binarized data whose dictionary the checkpoint is for")
    elif from_checkpoint:
        made = to_dictionary(source, output, data=data)
    else:
        generator = None if options.generator is None else local_folder(options.generator, allow_pickle=pickle)
        folder = local_folder(options.source, allow_pickle=pickle)
        made = from_hf(folder, data, output, generator=generator, allow_pickle=pickle)
    config, millions = made.config, made.parameters / 1e6
    print(
        f"wrote {made.output} ({made.architecture}): {config.layers} layers, {config.hidden_size} wide, "
        f"{config.heads} heads, {config.vocab_size} tokens, {millions:.1f} M parameters"
    )
    for note in made.notes:
        print(f"note: {note}")
    if made.flags:
        print("architecture flags for fairseq-train:")
        print(shlex.join(made.flags))
        print(f"next: truneg train {data} --finetune-from-model {output} with these flags ...")
    elif made.architecture.endswith(("ForMaskedLM", "BertForPreTraining")):
        print(f"next: truneg evaluate {output} --task held-out=TXT ...")
    else:
        print(f"next: transformers.{made.architecture}.from_pretrained({str(output)!r})")
