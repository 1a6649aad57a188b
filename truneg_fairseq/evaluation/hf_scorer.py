"""Masked LMs of Hugging Face's folders, and causal ones for what needs no mask; needs transformers, not fairseq."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..convert.architecture import open_config
from ..convert.from_hf import load_pretrained
from ..data.tokenizer import trimmed
from ..errors import TrueNegError, reason, require
from ..fairseq_runs.folder import transformers_updates
from ..files import ADAPTER, read_json
from ..hf.projection import MaskedProjection, select_rows
from ..models.checkpoints import modules_of, require_head
from ..vocabulary import ends_of, padding_of, symbols_of_tokenizer
from ..vocabulary import vocabulary_of_tokenizer as vocabulary_of
from .scorer import Scorer, Tokens, attention_mask

logger = logging.getLogger(__name__)

_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")  # of a whole model
_LOCAL = {"local_files_only": True, "trust_remote_code": False}
_BOTH_HALVES = "ElectraForReplacedTokens"  # what ElectraTrainer writes


class HuggingFaceTokens(Tokens):
    """The fast tokenizer of a folder."""

    def __init__(self, folder: Path, tokenization: str = "auto") -> None:
        require("transformers", extra="hf")
        from transformers import AutoTokenizer

        base = _base(folder)
        try:
            has_own = any((folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"))
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder if has_own else base), **_LOCAL)
            size = int(open_config(base).vocab_size)
        except Exception as error:  # transformers fails in many ways
            raise _refused(folder, error) from None
        self.mask = self.tokenizer.mask_token_id
        if not self.tokenizer.is_fast:
            raise TrueNegError(f"{folder}: has a slow tokenizer; expected a fast one, as tokenizer.json describes it")
        (self.begin, self.end), self.padding = ends_of(self.tokenizer), padding_of(self.tokenizer)
        self.vocabulary = vocabulary_of(self.tokenizer, tokenization, size)
        self.special = frozenset(self.tokenizer.all_special_ids)

    @property
    def symbols(self) -> Sequence[str]:
        return symbols_of_tokenizer(self.tokenizer)

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        if not texts:
            return []
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [np.array(each, dtype=np.int64) for each in ids]

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        places = [trimmed(text, *place) for place in found["offset_mapping"]]
        return np.array(found["input_ids"], dtype=np.int64), np.array(places, dtype=np.int32).reshape(-1, 2)


def hugging_face_scorer(folder: Path, padding: int, *, cpu: bool = False, causal: bool = False) -> Scorer:
    """The model of a folder with a masked-LM head, or if ``causal`` one that predicts the token after the place. The
    folder may be a LoRA adapter's (PEFT), or ElectraTrainer's: its generator predicts, its discriminator encodes.
    """
    require("transformers", extra="hf")
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    kind: Any = AutoModelForCausalLM if causal else AutoModelForMaskedLM
    base = _base(folder)
    try:
        config = open_config(base)
        if _BOTH_HALVES in (config.architectures or ()):
            from ..hf.electra_trainer import ElectraForReplacedTokens as kind
        model, missing, unexpected = load_pretrained(kind, base, use_safetensors=True, **_LOCAL)
        if base != folder:
            require("peft", extra="hf")
            from peft import PeftModel

            if not (folder / "adapter_model.safetensors").exists():  # PEFT would unpickle another file
                raise ValueError("it has no adapter_model.safetensors")
            model = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
    except Exception as error:  # transformers fails in many ways
        raise _refused(folder, error) from None
    if config.is_encoder_decoder:
        raise TrueNegError(f"{folder}: is a {config.model_type}, which reads and writes; expected a masked LM")
    if unexpected:
        unused = ", ".join(modules_of(unexpected))
        logger.info("%s: not used in a %s: %s", folder, type(model).__name__, unused)
    if getattr(config, "auto_map", None):
        logger.warning("%s: its own code never runs; it is measured as transformers' %s", folder, type(model).__name__)
    # Positions of RoBERTa and its kin begin after that of the padding.
    padded = (module.padding_idx for name, module in model.named_modules() if name.endswith(".position_embeddings"))
    before = max((index + 1 for index in padded if index is not None), default=0)
    both_halves = type(model).__name__ == _BOTH_HALVES
    predictor, encoder = (model.generator, model.discriminator.electra) if both_halves else (model, model)
    projection = None if causal else MaskedProjection(predictor)
    # The head's are asked for where it is used: hidden states need none.
    require_head(folder, {name for name in missing if name.startswith(f"{model.base_model_prefix}.")})

    def logits(tokens: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
        require_head(folder, missing)
        positions = chosen.reshape(-1).nonzero().squeeze(1)
        if projection is None:  # what fills a causal model's batches up stands after all that is asked for
            return select_rows(model(tokens).logits, positions)
        with projection.at(positions):
            found = predictor(tokens, attention_mask=attention_mask(tokens, lengths).long()).logits
        return select_rows(found, positions)

    def layers(tokens: Tensor, lengths: Tensor, original: Tensor) -> Sequence[Tensor]:
        attended = attention_mask(tokens, lengths).long()
        found = encoder(tokens, attention_mask=attended, output_hidden_states=True).hidden_states
        return list(found[1:])  # without the embeddings

    return Scorer(
        path=folder,
        model=model,
        embedding=model.get_input_embeddings(),
        logits=logits,
        layers=layers,
        padding=padding,
        longest=int(getattr(config, "max_position_embeddings", 512)) - before,
        cpu=cpu,
        updates=transformers_updates(folder),
        batch_tokens=1024,  # the logits of all places are computed
    )


def _base(folder: Path) -> Path | str:
    """The folder itself, or of an adapter without a whole model beside it the model that it changes."""
    is_whole = any(file for name in _WEIGHTS for file in folder.glob(name))
    if is_whole or not (folder / ADAPTER).exists():
        return folder
    return str(read_json(folder / ADAPTER, dict[str, Any], expected="PEFT's configuration")["base_model_name_or_path"])


def _refused(folder: Path, error: Exception) -> TrueNegError:
    if isinstance(error, TrueNegError):
        return error
    told = "it has code of its own, which never runs" if "remote_code" in str(error) else reason(error)
    return TrueNegError(f"{folder}: cannot be read ({told}); expected a Hugging Face LM with its tokenizer")
