"""``truneg data``, ``convert`` and ``doctor``: what a training needs before it starts."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..convert.names import EXPORTS
from ..corpus_counts import CountOptions
from ..data.binarize import BinarizeOptions
from ..errors import check_torch, reason, refuse, require
from ..finetuning import PrepareOptions
from ..flags import option
from .parser import NoOptions, next_step


def binarize(options: BinarizeOptions) -> None:
    """Binarize text for fairseq: a line is an item, a blank line keeps documents apart.

    Killed or failed, it is run again with the same flags and continues. On many machines that share a folder, each runs
    --shard i/n first; the run without --shard does what is missing and puts everything together.
    """
    from ..data.binarize import binarize as run

    done = run(options)
    if options.shard is not None:
        print(f"{options.output_dir}: shard {options.shard} is done; a run without --shard puts all together")
    else:
        print(f"{options.output_dir}: {'binarized' if done.made else 'is already there; remove it to binarize again'}")
    for split, counts in done.splits.items():
        print(
            f"{split}: {counts['lines']:,} lines, {counts['tokens']:,} tokens, {counts['unknown']:,} unknown "
            f"({counts['unknown'] / max(1, counts['tokens']):.3%})"
            + (f", {counts['replaced']:,} lines with U+FFFD (broken UTF-8)" if counts["replaced"] else "")
        )
    if options.shard is None:
        print(
            next_step(
                *("truneg", "train", options.output_dir, "--task", "masked_lm", "--criterion", "masked_lm_hc"),
                *("--arch", "roberta_base", "..."),
            )
        )


def counts(options: CountOptions) -> None:
    """Count the neighbours of a corpus's tokens, for soft targets: what stands beside a token, and between two.

    The training text is counted, in the numbers of its dictionary.
    """
    from ..corpus_counts import count_corpus

    output, found = count_corpus(options)
    print(f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB)")
    print(found.summary)
    print(next_step("truneg", "train", "DATA-BIN", "--soft-targets", "corpus=0.1", "--corpus-counts", output, "..."))


def prepare(options: PrepareOptions) -> None:
    """Prepare GLUE's and SQuAD's official files for fine-tuning, with the pre-trained model's own tokenizer.

    Prints what each task holds.
    """
    from ..finetuning.run_finetuning import prepare as run

    for folder, lines, made in run(options):
        print(f"{folder}: {'made' if made else 'is already there; remove it to make it again'}")
        print("\n".join(lines))


COMMANDS = {
    "": "Binarize text, count its n-grams, prepare tasks for fine-tuning.",
    "binarize": binarize,
    "counts": counts,
    "prepare": prepare,
}


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
    """Convert weights between Hugging Face and fairseq.

    A Hugging Face folder (BERT, ELECTRA, RoBERTa, XLM-RoBERTa, CamemBERT) becomes a checkpoint for fairseq-train
    --finetune-from-model, with the architecture flags that it prints. A checkpoint becomes a folder for
    AutoModel*.from_pretrained, with tokenizer and model card.
    """
    require("fairseq", extra="fairseq")
    require("transformers", extra="hf")
    from ..convert.from_hf import from_hf, local_folder
    from ..convert.to_hf import to_hf

    source, output, data, pickle = Path(options.source), options.output, options.data, options.allow_pickle
    exports = source.suffix == ".pt"
    refuse(
        (
            exports and output.suffix == ".pt",
            f"{output}: expected a folder; to another dictionary: truneg convert {source} DIR, then "
            f"truneg convert DIR {output} --data OTHER-DATA-BIN",
        ),
        (not exports and data is None, "--data: expected the binarized data whose dictionary the checkpoint is for"),
    )
    if exports or data is None:
        made = to_hf(source, output, data=data, part=options.part)
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
        print(next_step("truneg", "train", data, "--finetune-from-model", output), "with these flags ...")
    elif made.architecture.endswith(("ForMaskedLM", "BertForPreTraining")):
        print(next_step("truneg", "evaluate", output, "--task", "held-out=TXT", "..."))
    else:
        print(f"next: transformers.{made.architecture}.from_pretrained({str(output)!r})")


def doctor(options: NoOptions) -> None:
    """Check the installation and say what is wrong."""
    wrong = 0
    for is_good, text in check_installation():
        print(f"{'ok   ' if is_good else 'WRONG'}  {text}", flush=True)
        wrong += not is_good
    if wrong:
        print(f"{wrong} {'problem' if wrong == 1 else 'problems'} found")
        sys.exit(1)


_WITH_FAIRSEQ = ("fairseq-fixed", "hydra-core", "omegaconf")


def check_installation() -> Iterator[tuple[bool, str]]:
    """Whether Python, each package, fairseq's compiled parts, the plugin's registration and WordNet are good, and what
    was found.
    """
    from ..fairseq_runs.folder import versions as installed
    from ..synonyms.wordnet import require_wordnet

    versions = installed()
    has_fairseq = versions["fairseq-fixed"] is not None
    for name, number in versions.items():
        if number is None and not has_fairseq and name in _WITH_FAIRSEQ:
            yield True, f"{name} is not installed: needed for training with fairseq (README: Install)"
        elif name == "torch" and number is not None:
            yield _try(name, check_torch)
        else:
            yield number is not None, f"{name} {number or 'is not installed: pip install ' + name}"
    if has_fairseq:
        compiled = "fairseq.data.data_utils_fast"
        yield _try("fairseq's compiled parts", lambda: importlib.import_module(compiled) and "found")
        yield _try("the plugin", _register)
    yield _try("WordNet", require_wordnet)


def _try(what: str, look: Callable[[], object]) -> tuple[bool, str]:
    try:
        return True, f"{what}: {look()}"
    except (Exception, SystemExit) as error:
        return False, f"{what}: {reason(error).removeprefix(what).lstrip(' :')}"


def _register() -> str:
    from .. import register

    register()
    import torch

    return f"registered; {torch.cuda.device_count()} GPUs"
