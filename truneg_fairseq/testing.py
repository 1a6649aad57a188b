"""What a source of alternatives keeps wherever it is asked: for tests of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .objectives import Alternatives, EncoderPasses, MaskedPredictions, Objective, Setting, TrueNegativeOptions
from .objectives.build import setting_of_tokenizer
from .objectives.loss import IGNORED
from .registry import ALTERNATIVES

_SENTENCES, _LENGTH, _WIDTH = 4, 9, 8
_MASKED = (2, 4, 6)  # the places of the masked words of a sentence
_WAITS = frozenset({"_local_scalar_dense", "nonzero", "masked_select", "equal"})


def check_alternatives(
    mine: str | Callable[[Setting], Alternatives], tokenizer: Any, *, setting: Setting | None = None, **options: Any
) -> None:
    """Asks a source about made-up sentences, as fairseq, the Trainer and a loop do.

    Args:
        mine: the name of a source, its class, or what makes one of a setting.
        tokenizer: of transformers, or its folder; not read where there is a ``setting``.
        setting: what the source is made of.
        options: of the loss, such as ``corpus_counts``.

    Raises:
        AssertionError: says what is broken: shapes and ranges, a gradient, a wait for the device, a buffer that would
            be saved, or an answer that depends on what else is in the batch.
    """
    known = setting or setting_of_tokenizer(tokenizer, TrueNegativeOptions(**options))
    kind: Any = ALTERNATIVES.look_up(mine, "check_alternatives") if isinstance(mine, str) else mine
    source = kind(known)
    objective = Objective(TrueNegativeOptions(soft_targets="mine=0.5"), known, ideas={"mine": source})
    assert not source.state_dict(), "buffers are saved; expected register_buffer(name, tensor)"
    made = _Sentences(objective, len(known.vocabulary or known.symbols), known.padding)
    every = range(_SENTENCES)
    # A loop may project every place; fairseq and the Trainer project the masked ones, of whatever sentences there are.
    wide = made.ask(source, every, range(_LENGTH))
    expected = [each.view(_SENTENCES, _LENGTH, -1)[:, list(_MASKED)] for each in wide]
    for rows in (every, *([row] for row in every)):
        found = made.ask(source, rows, _MASKED)
        for name, one, other in zip(("words", "accepts"), found, expected, strict=True):
            close = torch.allclose(one.view(len(rows), len(_MASKED), -1), other[list(rows)], rtol=1e-4, atol=1e-5)
            assert close, f"{name}: another answer with other sentences or places in the batch"


class _Sentences:
    """Sentences of random words, and a model of random embeddings whose states mix a word with its neighbours."""

    def __init__(self, objective: Objective, size: int, padding: int) -> None:
        generator = torch.Generator().manual_seed(1)
        words = [word for word in range(size) if word != padding]
        chosen = torch.randint(len(words), (_SENTENCES, _LENGTH), generator=generator)
        self._objective, self._original = objective, torch.tensor(words)[chosen]
        self._logits = torch.randn(_SENTENCES, _LENGTH, size, generator=generator)
        self._embeddings = torch.randn(size, _WIDTH, generator=generator).requires_grad_()

    def ask(self, source: Alternatives, rows: Sequence[int], places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The soft target, shape (N, V), and the acceptance of the prediction, shape (N,), at places of sentences."""
        original = self._original[list(rows)]
        labels = torch.full_like(original, IGNORED)
        labels[:, list(_MASKED)] = original[:, list(_MASKED)]
        positions = torch.tensor([row * _LENGTH + place for row in range(len(rows)) for place in places])
        logits = self._logits[list(rows)][:, list(places)].flatten(0, 1).requires_grad_()
        batch = self._objective.predict(logits, labels, original, positions, IGNORED)
        options, reads = self._objective.options, "states" in source.reads
        given: dict[str, Any] = {"embeddings": lambda: self._embeddings, "encode": self._encode, "with_layers": reads}
        passes = EncoderPasses(batch, options, **given)
        with _NoWait():
            accepted = source.accepts(batch, batch.prediction, passes)
            assert accepted.shape == batch.gold.shape, f"accepts: shape {tuple(accepted.shape)}, expected (N,)"
            soft = source.target(batch, passes, 1.0)
        size = logits.size(1)
        q = torch.full_like(logits, 1 / size) * soft.share[:, None]
        if soft.tokens is not None and soft.probability is not None:
            self._check(batch, soft.tokens, soft.probability)
            q = torch.zeros_like(logits).scatter_add(1, soft.tokens, soft.share[:, None] * soft.probability)
        assert not accepted.requires_grad and not q.detach_().requires_grad, "an answer has a gradient"
        assert accepted.ge(0).all() and accepted.le(1).all(), "accepts: values outside [0, 1]"
        assert q.sum(1).le(1 + 1e-4).all(), "words: the weights of a position sum to more than 1"
        return q, accepted.float() * batch.counted

    def _check(self, batch: MaskedPredictions, tokens: Tensor, weights: Tensor) -> None:
        size = batch.logits.size(1)
        assert tokens.ge(0).all() and tokens.lt(size).all(), f"words: tokens outside of 0 to {size - 1}"
        assert weights.isfinite().all() and weights.ge(0).all(), "words: weights below 0, or not finite"
        assert not weights.requires_grad, "words: weights with a gradient"

    def _encode(self, tokens: Tensor, gradient: bool, dropout: bool) -> tuple[Tensor, ...]:
        first = self._embeddings.detach()[tokens]
        return first, first + 0.5 * first.roll(1, dims=1)


class _NoWait(TorchDispatchMode):
    """What would wait for a GPU fails, also on a CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.partition(".")[0]
        assert name not in _WAITS, f"{name} waits for the device; expected operations whose shapes are known"
        return func(*args, **(kwargs or {}))
