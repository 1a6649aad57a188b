"""Loading a checkpoint with its task, and trained models in Python: sentences in, predictions and scores out."""

from __future__ import annotations

import copy
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models.roberta.hub_interface import RobertaHubInterface
from omegaconf import OmegaConf
from torch import Tensor, nn

from ..data.tokenizer import check_dictionary, load_tokenizer
from ..errors import TrueNegError, reason
from ..vocabulary import MASK_SYMBOL, fingerprint, read_symbols
from .checkpoints import Checkpoint, check_vocabulary


def load_checkpoint(read: Checkpoint, data: Path) -> tuple[Any, Any]:
    """A masked-LM model, in training mode, and its task, on a folder of binarized data, whatever the training's was."""
    check_vocabulary(read, fingerprint(read_symbols(data)), data)  # before a model of its sizes is built
    model, task = load_model(read, data)
    if not hasattr(task, "mask_idx"):
        raise TrueNegError(
            f"{read.path}: is of task {type(task).__name__}; expected a masked-LM task such as masked_lm"
        )
    return model, task


def load_model(read: Checkpoint, data: Path) -> tuple[Any, Any]:
    """As :func:`load_checkpoint`, of a checkpoint of any task that is read and fits the data."""
    overrides = {"data": str(data)}
    try:
        state = as_fairseq_reads(read, overrides)
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(read.path)], overrides, state=state)
    except Exception as error:  # other files fail to load in many ways
        raise TrueNegError(
            f"{read.path}: cannot be loaded ({reason(error)}); expected fairseq's checkpoint of a model whose "
            f"dictionary is that of {data}"
        ) from None
    return models[0], task


def load_task(read: Checkpoint, data: Path, seed: int | None = None) -> Any:
    """The task of a checkpoint's training alone, on a folder of binarized data, with its seed of masks or another."""
    overrides = {"data": str(data), **({} if seed is None else {"seed": seed})}
    return tasks.setup_task(as_fairseq_reads(read, overrides)["cfg"].task)


def as_fairseq_reads(read: Checkpoint, overrides: dict[str, Any]) -> dict[str, Any]:
    """What ``load_checkpoint_to_cpu`` makes of a file, without reading it again, and without its optimizer."""
    state = {**read.content, "model": dict(read.content["model"]), "last_optimizer_state": None}
    if state.get("args") is not None:
        state["args"] = copy.copy(state["args"])
        for name, value in overrides.items():
            setattr(state["args"], name, value)
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], overrides)
    upgraded: dict[str, Any] = checkpoint_utils._upgrade_state_dict(state)
    return upgraded


class BertHubInterface(RobertaHubInterface):
    """fairseq's interface to RoBERTa, in evaluation mode, with the tokenizer beside the data and BERT's sentences."""

    def __init__(self, cfg: Any, task: Any, model: nn.Module) -> None:
        nn.Module.__init__(self)  # fairseq's constructor builds a BPE by name
        self.cfg = cfg
        self.task = task
        self.model = model
        self.dictionary = task.source_dictionary
        data = Path(task.cfg.data.split(":")[0])
        self.tokenizer = load_tokenizer(data)
        # None: what is encoded here must be what the model was trained on.
        check_dictionary(self.tokenizer, self.dictionary.symbols, str(data / "dict.txt"), lacking_share=0)
        self.register_buffer("_float_tensor", torch.zeros(1))  # tells fairseq's interface the device
        self.eval()

    def encode(self, sentence: str, *addl_sentences: str, no_separator: bool = False) -> Tensor:
        """Token ids of ``<s> sentence </s>`` or ``<s> sentence </s> second </s>``; ``no_separator`` has no effect."""
        ids = [self.dictionary.bos()]
        for text in (sentence, *addl_sentences):
            ids += [*self._ids(text), self.dictionary.eos()]
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, tokens: Tensor) -> str | list[str]:
        """The text of token ids, shape (T,), or a list of texts where there are several sentences."""
        dictionary = self.dictionary
        parts = [list(part) for is_end, part in groupby(tokens.tolist(), dictionary.eos().__eq__) if not is_end]
        left_out = (dictionary.bos(), dictionary.pad())
        words = ([dictionary[token] for token in part if token not in left_out] for part in parts)
        sentences = [self.tokenizer.decode(symbols) for symbols in words]
        return sentences if len(sentences) > 1 else "".join(sentences)

    @torch.no_grad()
    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """The likeliest fillings of the one ``<mask>`` in a text: text, probability, token."""
        if masked_input.count(MASK_SYMBOL) != 1:
            raise ValueError(f"found {masked_input.count(MASK_SYMBOL)} {MASK_SYMBOL} in the text, expected one")
        tokens = self.encode(masked_input).to(self.device)[None]
        model: Any = self.model
        logits = model(tokens, masked_tokens=tokens.eq(self.dictionary.index(MASK_SYMBOL)))[0][0]
        best = logits.float().softmax(-1).topk(min(topk, logits.size(-1)))
        filled = []
        for probability, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            text = self.tokenizer.decode([self.dictionary[token]])
            filled.append((masked_input.replace(MASK_SYMBOL, text.strip()), probability, text))
        return filled

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, span in enumerate(text.split(MASK_SYMBOL)):
            if number:
                ids.append(self.dictionary.index(MASK_SYMBOL))
            ids += [self.dictionary.index(symbol) for symbol in self.tokenizer.encode(span.rstrip())]
        return ids

    @torch.no_grad()
    def replaced_token_scores(self, sentence: str, *addl_sentences: str) -> list[tuple[str, float]]:
        """Of an ELECTRA: every token, special ones too, with the probability that it does not belong there."""
        tokens = self.encode(sentence, *addl_sentences)
        head: Any = getattr(self.model, "discriminator_head", None)
        if head is None:
            raise ValueError("the model has no discriminator, expected a checkpoint of the task electra_pretraining")
        scores = head(self.extract_features(tokens))[0].float().sigmoid()
        return [(self.dictionary[token], score) for token, score in zip(tokens.tolist(), scores.tolist(), strict=True)]
