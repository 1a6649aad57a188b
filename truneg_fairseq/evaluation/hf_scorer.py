"""Masked LMs of Hugging Face's folders, and causal ones for what needs no mask; needs transformers, not fairseq."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from ..convert.hf_model import quiet_transformers
from ..data.tokenizer import trimmed
from ..errors import TrueNegError, reason, require
from ..hf.projection import MaskedProjection, select_rows
from ..hf.tokenizer import vocabulary_of
from .scorer import MaskedLm
from .tokens import Tokens

_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Without the last one transformers asks on a terminal whether a folder's own code may run."""


class HuggingFaceTokens(Tokens):
    """The fast tokenizer of a folder."""

    def __init__(self, folder: Path, tokenization: str = "auto") -> None:
        require("transformers", extra="hf")
        from transformers import AutoConfig, AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), **_LOCAL)
            size = int(AutoConfig.from_pretrained(str(folder), **_LOCAL).vocab_size)
        except Exception as error:  # transformers fails in many ways
            raise _refused(folder, error) from None
        self.mask = self.tokenizer.mask_token_id
        names = ("bos", "eos") if self.mask is None else ("cls", "sep")
        begin, end = (getattr(self.tokenizer, f"{name}_token_id") for name in names)
        if begin is None or end is None or not self.tokenizer.is_fast:
            raise TrueNegError(f"{folder}: has no fast tokenizer with {' and '.join(names)} tokens; expected one")
        self.begin, self.end = int(begin), int(end)
        self.vocabulary = vocabulary_of(self.tokenizer, tokenization, size)
        self.special = frozenset(self.tokenizer.all_special_ids)

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        ids = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
        return [np.array(each, dtype=np.int64) for each in ids]

    @override
    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        places = [trimmed(text, *place) for place in found["offset_mapping"]]
        return np.array(found["input_ids"], dtype=np.int64), np.array(places, dtype=np.int32).reshape(-1, 2)


class HuggingFaceMaskedLm(MaskedLm):
    """The model of a folder with a masked-LM head; with ``causal`` of one that predicts the token after the place."""

    batch_tokens: ClassVar[int] = 1024  # the logits of all places are computed

    def __init__(self, folder: Path, *, cpu: bool = False, causal: bool = False) -> None:
        require("transformers", extra="hf")
        from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

        kind: Any = AutoModelForCausalLM if causal else AutoModelForMaskedLM
        try:
            with quiet_transformers():
                model, loaded = kind.from_pretrained(
                    str(folder), use_safetensors=True, output_loading_info=True, **_LOCAL
                )
        except Exception as error:  # transformers fails in many ways
            raise _refused(folder, error) from None
        config = model.config
        # Those of RoBERTa and its kin begin after that of the padding.
        padded = (module.padding_idx for name, module in model.named_modules() if name.endswith(".position_embeddings"))
        unused = max((index + 1 for index in padded if index is not None), default=0)
        longest = int(getattr(config, "max_position_embeddings", 512)) - unused
        self._projection = None if causal else MaskedProjection(model)
        super().__init__(folder, model, padding=int(config.pad_token_id or 0), longest=longest, cpu=cpu)
        self.embeddings = model.get_input_embeddings().weight.detach()
        self._missing = sorted(loaded["missing_keys"])
        self._require_weights(f"{model.base_model_prefix}.")  # the head's where it is used: states need none

    def _require_weights(self, prefix: str = "") -> None:
        if missing := [name for name in self._missing if name.startswith(prefix)]:
            raise TrueNegError(f"{self.path}: has no {missing[0]}; expected an LM with its prediction head")

    @override
    def _logits(self, tokens: Tensor, chosen: Tensor) -> Tensor:
        self._require_weights()
        positions = chosen.reshape(-1).nonzero().squeeze(1)
        if self._projection is None:  # what fills a causal model's batches up stands after all that is asked for
            return select_rows(self._model(tokens).logits, positions)
        with self._projection.at(positions):
            logits = self._model(tokens, attention_mask=tokens.ne(self.padding).long()).logits
        return select_rows(logits, positions)

    @override
    def _layers(self, tokens: Tensor, original: Tensor) -> Sequence[Tensor]:
        attended = original.ne(self.padding).long()
        found = self._model(tokens, attention_mask=attended, output_hidden_states=True).hidden_states
        return list(found[1:])  # without the embeddings


def _refused(folder: Path, error: Exception) -> TrueNegError:
    return TrueNegError(f"{folder}: cannot be read ({reason(error)}); expected a Hugging Face LM with its tokenizer")
