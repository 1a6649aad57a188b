"""Counts of a text mixed into the predictions of a masked LM of transformers, without any training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from ..errors import TrueNegError
from ..objectives.build import read_corpus_targets
from ..vocabulary import vocabulary_of_tokenizer


def mix_counts(model: nn.Module, tokenizer: Any, counts: str | Path, share: float = 0.2) -> RemovableHandle:
    """Has a masked LM predict ``(1 - share) p + share q`` at masked tokens; q is the text's between neighbours.

    Its outputs have the logarithms of these probabilities in place of the logits there; other positions stay as they
    are. Pipelines, and losses computed from the outputs, see the mixture; the ``loss`` that the model itself gives for
    labels does not. ``truneg data counts --text ... --tokenizer ...`` writes the file. Mix it in only where you
    predict: a model that trains on the counted text would see its own answers.

    Args:
        model: of ``AutoModelForMaskedLM``.
        tokenizer: the model's.
        counts: the npz.
        share: in [0, 1].

    Returns:
        A handle; its ``remove()`` gives the model back as it was.
    """
    if not 0 <= share <= 1:
        raise TrueNegError(f"share {share}: expected a number in [0, 1]")
    corpus = read_corpus_targets(Path(counts), vocabulary_of_tokenizer(tokenizer).symbols)
    mask, padding = tokenizer.mask_token_id, int(tokenizer.pad_token_id or 0)

    def mix(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        tokens = named.get("input_ids", args[0] if args else None)
        if tokens is None:
            raise TrueNegError("mix_counts: the model was called without input_ids; expected tokens, not embeddings")
        positions = tokens.eq(mask).reshape(-1).nonzero().squeeze(1)
        flat = output.logits.reshape(-1, output.logits.size(-1)).clone()
        mixed = corpus.to(flat.device).mixed(flat[positions], tokens, positions, padding, share)
        flat[positions] = mixed.to(flat.dtype)
        output.logits = flat.view_as(output.logits)
        return output

    return model.register_forward_hook(mix, with_kwargs=True)
