"""Reading a Hugging Face model with transformers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import TrueNegError, reason
from .architecture import ROBERTA_FIRST_POSITION, ModelConfig, read_config
from .names import FAMILIES, NEXT_SENTENCE_HEAD, POOLER_HEAD, POSITIONS, ROBERTA, TOKEN_TYPES, WORDS, Pair

HUB = "hub:"
"""How the name of a model on the Hugging Face hub begins; everything else is a local folder."""
_CLASSES = {
    "bert": "BertForPreTraining",
    "electra": "ElectraForPreTraining",
    "roberta": "RobertaForMaskedLM",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "camembert": "CamembertForMaskedLM",
}
_HEADS = ("pooler", "next_sentence", "masked_lm", "discriminator")


@dataclass(frozen=True)
class HfModel:
    """A model read from a Hugging Face folder."""

    folder: Path
    config: ModelConfig  # ``tied`` is what the weights show
    parts: tuple[str, ...]  # beside embeddings and layers
    tensors: Mapping[str, Tensor]  # float32, under transformers' names; positions are laid out as fairseq's
    dropped: tuple[str, ...]  # the names in the file that no weight of ours answers to
    pad: int | None  # the row of the padding token, from which RoBERTa's positions count; None for the others

    @property
    def pooler_head(self) -> str:
        """The classification head that a pooler becomes."""
        return NEXT_SENTENCE_HEAD if "next_sentence" in self.parts else POOLER_HEAD

    def pairs(self, stack: str = "encoder") -> list[Pair]:
        """The names of its tensors on both sides."""
        family = FAMILIES[self.config.family]
        return family.pairs(self.parts, self.config.layers, stack=stack, head=self.pooler_head, base=family.base)


def local_folder(source: str, *, allow_pickle: bool = False) -> Path:
    """The folder itself, or where the files of ``hub:NAME`` were downloaded to."""
    if not source.startswith(HUB):
        return Path(source)
    import huggingface_hub

    wanted = ["*.json", "*.txt", "*.safetensors", *(["pytorch_model*.bin"] if allow_pickle else [])]
    return Path(huggingface_hub.snapshot_download(source.removeprefix(HUB), allow_patterns=wanted))


def read_model(folder: Path, *, allow_pickle: bool = False) -> HfModel:
    """Reads a model of one of the families: config.json with model.safetensors, whole or in shards.

    With ``allow_pickle`` pytorch_model.bin is read if that file is missing, with torch's weights_only.
    """
    config, theirs = read_config(folder)
    family = FAMILIES[config.family]
    state, missing, unexpected = _load(folder, theirs, allow_pickle=allow_pickle)
    dropped = sorted(name.removeprefix(family.base) for name in unexpected)
    if unknown := [name for name in dropped if not name.startswith(family.ignored)]:
        raise TrueNegError(
            f"{folder}: {len(unknown)} tensors are not known (e.g. {unknown[0]}); expected an encoder of the sizes in "
            "config.json with the heads of its pre-training"
        )
    for first, second in family.copies.items():
        state[first] = state[second]  # one tensor, unless the head is untied: it computes with the second
    (projection,) = (pair.theirs for pair in family.parts["untied"])
    heads = _heads(folder, config, state.keys() - missing)
    untied = "masked_lm" in heads and not torch.equal(state[projection], state[family.base + WORDS])
    config = replace(config, tied=not untied)
    pad = None
    if family is ROBERTA:
        pad, name, types = theirs.pad_token_id, family.base + POSITIONS, family.base + TOKEN_TYPES
        positions = state[name]
        if pad + 1 != ROBERTA_FIRST_POSITION:
            unused = positions.new_zeros(ROBERTA_FIRST_POSITION, positions.size(1))
            positions = torch.cat([unused, positions[pad + 1 :]])
        if types not in missing and state[types][0].any():  # -0.0 + 0.0 is another number, to the bit
            positions = positions + state[types][0]
        state[name] = positions
    parts = (*config.parts, *heads, *(["untied"] if untied else []))
    model = HfModel(folder, config, parts, {}, tuple(dropped), pad)
    return replace(model, tensors={pair.theirs: state[pair.theirs] for pair in model.pairs()})


def _load(folder: Path, theirs: Any, *, allow_pickle: bool) -> tuple[dict[str, Tensor], Set[str], Set[str]]:
    """The model's tensors, and the names that the file lacks and those that it has beside them."""
    import transformers

    name = _CLASSES[theirs.model_type]
    if "ElectraForMaskedLM" in (theirs.architectures or []):
        name = "ElectraForMaskedLM"
    try:
        with quiet_transformers():
            model, found = getattr(transformers, name).from_pretrained(
                folder,
                config=theirs,
                dtype=torch.float32,
                use_safetensors=None if allow_pickle else True,
                weights_only=True,
                local_files_only=True,
                output_loading_info=True,
            )
    except Exception as error:  # of many kinds
        hint = "" if allow_pickle else "; --allow-pickle also reads pytorch_model.bin, with torch's weights_only"
        raise TrueNegError(
            f"{folder}: its weights cannot be read ({reason(error)}); expected model.safetensors{hint}"
        ) from None
    return dict(model.state_dict()), set(found["missing_keys"]), set(found["unexpected_keys"])


def _heads(folder: Path, config: ModelConfig, stored: Set[str]) -> list[str]:
    """The heads that the file has some tensors of; they and the encoder must be whole."""
    family = FAMILIES[config.family]
    names = {part: {pair.theirs.format(base=family.base) for pair in family.parts.get(part, ())} for part in _HEADS}
    heads = [part for part, its in names.items() if its & stored]
    wanted = {pair.theirs for pair in family.pairs((*config.parts, *heads), config.layers, base=family.base)}
    if "next_sentence" in heads:
        wanted |= names["pooler"]
    if lacking := sorted(wanted - stored):
        raise TrueNegError(
            f"{folder}: {len(lacking)} tensors are missing (e.g. {lacking[0]}); expected the encoder that "
            "config.json describes, and a head whole or not at all"
        )
    return heads


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without transformers' bars and its reports on missing heads."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
