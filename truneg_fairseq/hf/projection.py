"""Masked LMs of transformers: the vocabulary projection at the masked positions only, and counts mixed in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ..corpus_counts import DEFAULT_SHARE, CountsShare, fit_counts_share
from ..objectives import gather_rows
from ..objectives.build import read_corpus_targets
from ..objectives.loss import IGNORED
from ..vocabulary import padding_of, symbols_of_tokenizer
from .collator import DataCollatorForTrueNegatives

logger = logging.getLogger(__name__)

# By type of the configuration, the first module of the head: it and all that follow work on each position alone.
_HEADS: dict[str, tuple[str, ...]] = {
    "bert": ("cls",),
    "roberta": ("lm_head",),
    "xlm-roberta": ("lm_head",),
    "camembert": ("lm_head",),
    "distilbert": ("vocab_transform",),
    "electra": ("generator_predictions",),
    "modernbert": ("head",),
    "deberta": ("cls", "lm_predictions"),
    "deberta-v2": ("cls", "lm_predictions"),
    "albert": ("predictions",),
    "mpnet": ("lm_head",),
    "convbert": ("generator_predictions",),
}


class MaskedProjection:
    """Has a masked LM's own head see the states at the masked positions alone; its logits then have shape (N, V).

    A hook before the head's first module selects them, whatever wraps the model. It does nothing outside :meth:`at`,
    and stays where it is, as a compiled model takes no notice of a hook that comes and goes. A model, unwrapped, whose
    head is not known projects every position. Of ELECTRA's halves it is the generator's head.
    """

    def __init__(self, model: Any) -> None:
        self.everywhere = False  # project every position all the same
        self.head: nn.Linear | None = None  # the last layer of a known head, where it is a plain projection
        self._positions: Tensor | None = None
        if (head := _head(getattr(model, "generator", model))) is not None:
            head.register_forward_pre_hook(self._select)
            last = model.get_output_embeddings()
            words = model.get_input_embeddings().weight
            self.head = last if type(last) is nn.Linear and len(last.weight) == len(words) else None
        else:
            logger.warning(
                "%s: its masked-LM head is not known, so that every position is projected to the vocabulary, not only "
                "the masked ones; training is slower than it could be",
                type(model).__name__,
            )

    @contextmanager
    def at(self, positions: Tensor, *, with_states: bool = False) -> Iterator[None]:
        """Projects these positions of each forward pass; int64, shape (N,), indices into the flattened (B, T).

        ``with_states``: the outputs have what the last layer would have projected, shape (N, H), as their logits.
        """
        self._positions, skipped = None if self.everywhere else positions, self.head if with_states else None
        if skipped is not None:
            skipped.forward = nn.Identity().forward  # type: ignore[method-assign]
        try:
            yield
        finally:
            self._positions = None
            if skipped is not None:
                del skipped.forward

    def _select(self, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._positions is None:
            return arguments
        states, *others = arguments
        return (gather_rows(states, self._positions), *others)


def _head(model: Any) -> nn.Module | None:
    """The first module of the head; None where it is not known, as in classes that are not transformers' own."""
    for name in _HEADS.get(model.config.model_type, ()):
        head = getattr(model, name, None)
        sources = [type(model).forward.__module__, type(head).__module__]
        if head is not None and all(source.split(".")[0] in ("transformers", "torch", "peft") for source in sources):
            return head
    return None


def select_rows(logits: Tensor, positions: Tensor) -> Tensor:
    """The logits at positions, shape (N, V): of shape (B, T, V), or of :meth:`MaskedProjection.at` already."""
    return logits if logits.dim() == 2 else gather_rows(logits, positions)


@contextmanager
def weights_kept(model: nn.Module, are_cast: bool) -> Iterator[None]:
    """Gives a model the weights and buffers back that Trainer casts in place to evaluate in half precision."""
    parts = [*model.modules()] if are_cast else []
    parameters = [(each, each.data) for part in parts for each in part.parameters(recurse=False)]
    buffers = [(part, dict(part._buffers)) for part in parts]
    try:
        yield
    finally:
        for parameter, data in parameters:
            parameter.data = data
        for part, kept in buffers:
            part._buffers.update(kept)


def is_tied(model: Any) -> bool:
    head, words = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None or head.weight is words.weight:
        return head is not None
    # An adapter that trains some tokens adds them up anew each time.
    return bool(model.config.tie_word_embeddings and torch.equal(head.weight, words.weight))


def masked_positions(labels: Tensor) -> Tensor:
    """Where a token is predicted, int64, shape (N,), indices into the flattened (B, T); a host-device sync."""
    return labels.reshape(-1).ne(IGNORED).nonzero().squeeze(1)


def mix_counts(
    model: nn.Module, tokenizer: Any, counts: str | Path, share: float | tuple[float, float, float] = DEFAULT_SHARE
) -> RemovableHandle:
    """Has a masked LM predict ``(1 - share) p + share q`` at masked tokens; q is the text's between neighbours.

    Its outputs have the logarithms of these probabilities in place of the logits there; other positions stay as they
    are. Pipelines, and losses computed from the outputs, see the mixture; the ``loss`` that the model itself gives for
    labels does not. ``truneg data counts --text ... --tokenizer ...`` writes the file. Mix it in only where you
    predict: a model that trains on the counted text would see its own answers.

    Args:
        model: of ``AutoModelForMaskedLM``.
        tokenizer: the model's.
        counts: the npz.
        share: in [0, 1]; or three numbers, as :func:`fit_share` finds them.

    Returns:
        A handle; its ``remove()`` gives the model back as it was.
    """
    if "mix_counts.<locals>.mix" in (getattr(hook, "__qualname__", "") for hook in model._forward_hooks.values()):
        raise ValueError("counts are mixed into this model already; remove() the handle of that call first")
    chosen = CountsShare.parse(share)
    corpus = read_corpus_targets(Path(counts), symbols_of_tokenizer(tokenizer))
    mask, padding = tokenizer.mask_token_id, padding_of(tokenizer)

    def mix(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        tokens = named.get("input_ids", next(iter(args), None))
        if tokens is None:
            raise ValueError("counts are of tokens: expected input_ids, found none (inputs_embeds?)")
        positions = tokens.eq(mask).reshape(-1).nonzero().squeeze(1)
        flat = output.logits.reshape(-1, output.logits.size(-1)).clone()
        mixed = corpus.to(flat.device).mixed(flat[positions], tokens, positions, padding, chosen)
        flat[positions] = mixed.to(flat.dtype)
        output.logits = flat.view_as(output.logits)
        return output

    return model.register_forward_hook(mix, with_kwargs=True)


@torch.no_grad()
def fit_share(model: Any, tokenizer: Any, counts: str | Path, text: Iterable[str], seed: int = 1) -> CountsShare:
    """The share for :func:`mix_counts` with the lowest loss on lines of text, of the kind to come and not judged later.

    Args:
        model: in evaluation mode, without counts.
        tokenizer: the model's.
        counts: the npz.
        text: lines, of whose tokens 15 % are masked.
        seed: of the masks.
    """
    corpus = read_corpus_targets(Path(counts), symbols_of_tokenizer(tokenizer)).to(model.device)
    collator, parts = DataCollatorForTrueNegatives(tokenizer), list[Tensor]()
    for number, line in enumerate(text):
        whole = tokenizer(line, truncation=True, return_tensors="pt")["input_ids"]
        tokens, labels = (each.to(model.device) for each in collator.mask(whole, [seed, number], progress=1.0))
        positions = masked_positions(labels)
        logits, gold = gather_rows(model(tokens).logits, positions), labels.reshape(-1)[positions]
        parts.append(corpus.evidence(logits, gold, tokens, positions, padding_of(tokenizer)).cpu())
    return fit_counts_share(torch.cat(parts, dim=1).numpy())
