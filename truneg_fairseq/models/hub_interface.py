"""Trained models in Python: sentences in; tokens, features, predictions and replaced-token scores out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.models.roberta.hub_interface import RobertaHubInterface
from torch import Tensor, nn

from ..data.tokenizer import TextTokenizer, check_dictionary, load_tokenizer
from ..vocabulary import MASK_SYMBOL
from .checkpoints import read_checkpoint
from .loading import as_fairseq_reads


class BertHubInterface(RobertaHubInterface):
    """As fairseq's interface to RoBERTa, with the tokenizer that lies beside the data and BERT's way to join sentences.

    Inherited: ``extract_features(tokens)`` and ``predict(head, tokens)``. It is in evaluation mode when it is made.
    """

    def __init__(self, cfg: Any, task: Any, model: nn.Module, tokenizer: TextTokenizer) -> None:
        nn.Module.__init__(self)  # fairseq's constructor builds a BPE by name
        self.cfg = cfg
        self.task = task
        self.model = model
        self.tokenizer = tokenizer
        self.dictionary = task.source_dictionary
        self.register_buffer("_float_tensor", torch.zeros(1))  # tells fairseq's interface the device
        self.eval()

    def encode(self, sentence: str, *addl_sentences: str, no_separator: bool = False) -> Tensor:
        """Token ids of ``<s> sentence </s>``, or of ``<s> sentence </s> second </s>``, int64, shape (T,).

        ``<mask>`` in the text stands for a masked token. ``no_separator`` has no effect: it is part of
        fairseq's interface, and there is no separator here.
        """
        ids = [self.dictionary.bos()]
        for text in (sentence, *addl_sentences):
            ids += [*self._ids(text), self.dictionary.eos()]
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, tokens: Tensor) -> str | list[str]:
        """The text of token ids, shape (T,), or a list of texts where there are several sentences."""
        dictionary = self.dictionary
        sentences: list[str] = []
        symbols: list[str] = []
        for token in tokens.tolist():
            if token == dictionary.eos():
                sentences.append(self.tokenizer.decode(symbols))
                symbols = []
            elif token not in (dictionary.bos(), dictionary.pad()):
                symbols.append(dictionary[token])
        if symbols:
            sentences.append(self.tokenizer.decode(symbols))
        return sentences if len(sentences) > 1 else "".join(sentences)

    @torch.no_grad()
    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """The likeliest tokens for the one ``<mask>`` in a text; of an ELECTRA the generator answers.
        Each comes with the filled text, the probability and the token, from likely to unlikely.
        """
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


class ElectraHubInterface(BertHubInterface):
    """An ELECTRA; with its discriminator also what it thinks of each token."""

    @torch.no_grad()
    def replaced_token_scores(self, sentence: str, *addl_sentences: str) -> list[tuple[str, float]]:
        """The probability of every token that it does not belong there: (token, probability) in order, the special
        tokens included.
        """
        tokens = self.encode(sentence, *addl_sentences)
        head: Any = self.model.discriminator_head
        if head is None:
            raise ValueError("the model has no discriminator, expected a checkpoint of the task electra_pretraining")
        scores = head(self.extract_features(tokens))[0].float().sigmoid()
        return [(self.dictionary[token], score) for token, score in zip(tokens.tolist(), scores.tolist(), strict=True)]


def load(
    interface: type[BertHubInterface], folder: str, checkpoint_file: str, data: str | None, **overrides: Any
) -> BertHubInterface:
    """Loads a checkpoint with its task and tokenizer, by default from the data that it was trained on."""
    path = Path(folder) / checkpoint_file
    overrides |= {"load_checkpoint_heads": True, **({} if data is None else {"data": str(data)})}
    state = as_fairseq_reads(read_checkpoint(path), overrides)
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides, state=state)
    beside = Path(task.cfg.data.split(":")[0])
    tokenizer = load_tokenizer(beside)
    # None: what is encoded here must be what the model was trained on.
    check_dictionary(tokenizer, task.source_dictionary.symbols, str(beside / "dict.txt"), lacking_share=0)
    return interface(cfg, task, models[0], tokenizer)
