"""Heads on the encoder: masked LM, ELECTRA's discriminator, classification, question answering."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from .encoder import activation_function


class LmHead(nn.Module):
    """The masked-LM head of BERT and ELECTRA: dense, activation, LayerNorm, projection with the word embeddings.

    fairseq's RobertaLMHead with a dense layer that leads from the encoder's width H, ``hidden``, to the embeddings'.
    ``weight``, shape (V, E), are the embeddings to tie to, or those of a head of its own.
    """

    def __init__(self, hidden: int, weight: nn.Parameter, activation_fn: str) -> None:
        super().__init__()
        size, width = weight.shape
        self.dense = nn.Linear(hidden, width)
        self.activation_fn = activation_function(activation_fn)
        self.layer_norm = LayerNorm(width)
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, features: Tensor, masked_tokens: Tensor | None = None, **unused: Any) -> Tensor:
        """Logits of shape (B, T, V), or (N, V) at ``masked_tokens``, bool, shape (B, T)."""
        if masked_tokens is not None:
            features = features[masked_tokens]
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        return nn.functional.linear(x, self.weight, self.bias)


class DiscriminatorHead(nn.Module):
    """ELECTRA's replaced-token detector: dense, activation, one logit a token."""

    def __init__(self, hidden: int, activation_fn: str) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.activation_fn = activation_function(activation_fn)
        self.out_proj = nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of shape (B, T), positive for "replaced", of features of shape (B, T, H)."""
        return self.out_proj(self.activation_fn(self.dense(features))).squeeze(-1)


class PooledClassificationHead(nn.Module):
    """The head of BERT: the first token through a dense layer and tanh (its pooler), dropout, a linear classifier."""

    def __init__(self, hidden: int, inner: int, classes: int, activation_fn: str, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, inner)
        self.activation_fn = activation_function(activation_fn)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(inner, classes)

    def forward(self, features: Tensor, **unused: Any) -> Tensor:
        """Logits of shape (B, C) of features of shape (B, T, H)."""
        return self.out_proj(self.dropout(self.activation_fn(self.dense(features[:, 0]))))


class LinearClassificationHead(nn.Module):
    """The head of ELECTRA: the first token, dropout, and a linear classifier."""

    def __init__(self, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(hidden, classes)

    def forward(self, features: Tensor, **unused: Any) -> Tensor:
        """Logits of shape (B, C) of features of shape (B, T, H)."""
        return self.out_proj(self.dropout(features[:, 0]))


class AnswerLogits(NamedTuple):
    """Where answers begin and end, in windows of T positions; fp32, -inf where no answer may stand."""

    starts: Tensor  # shape (B, T)
    ends: Tensor | None  # shape (B, T); of the joint head those given the true start, None without it
    beam: Tensor | None = None  # int64, shape (B, K): the joint head's most likely starts, when it evaluates
    beam_ends: Tensor | None = None  # shape (B, K, T): the ends given each of them
    unanswerable: Tensor | None = None  # shape (B,), positive for "no answer", of a joint head for SQuAD 2.0


class QuestionAnsweringHead(nn.Module):
    """The head of BERT and of each Hugging Face encoder: one linear layer gives start and end, independently."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out_proj = nn.Linear(hidden, 2)

    def forward(self, features: Tensor, allowed: Tensor, starts: Tensor | None = None) -> AnswerLogits:
        """Logits of features of shape (B, T, H); ``allowed``, bool, shape (B, T), is where answers may begin or end."""
        logits = self.out_proj(features).float().masked_fill(~allowed[..., None], -torch.inf)
        return AnswerLogits(*logits.unbind(-1))


class JointQuestionAnsweringHead(nn.Module):
    """The head of ELECTRA: the end is found given the start; for SQuAD 2.0 one logit more says that there is no answer.

    That logit comes from the first token and the average of all tokens, weighted with the probability to be the start.
    """

    INNER = 512
    BEAM = 20

    def __init__(self, hidden: int, activation_fn: str, answerability: bool) -> None:
        super().__init__()
        self.activation_fn = activation_function(activation_fn)
        self.start = nn.Linear(hidden, 1)
        self.end_token = nn.Linear(hidden, self.INNER)
        self.end_start = nn.Linear(hidden, self.INNER, bias=False)
        self.end = nn.Linear(self.INNER, 1)
        self.answerability = (
            nn.ModuleDict({"dense": nn.Linear(2 * hidden, self.INNER), "out_proj": nn.Linear(self.INNER, 1)})
            if answerability
            else None
        )

    def forward(self, features: Tensor, allowed: Tensor, starts: Tensor | None = None) -> AnswerLogits:
        """Logits of features of shape (B, T, H); the beam is searched only in evaluation.

        ``allowed``, bool, shape (B, T), is where answers may begin or end; ``starts``, int64, shape (B,), are the true
        starts.
        """
        logits = self.start(features).squeeze(-1).float().masked_fill(~allowed, -torch.inf)
        tokens = self.end_token(features)
        ends = None if starts is None else self._ends(features, tokens, allowed, starts)
        beam = beam_ends = None
        if not self.training:
            beam = logits.argsort(dim=1, descending=True, stable=True)[:, : self.BEAM]
            # One start at a time: all at once would take K times the memory.
            beam_ends = torch.stack([self._ends(features, tokens, allowed, start) for start in beam.unbind(1)], dim=1)
        return AnswerLogits(logits, ends, beam, beam_ends, self._unanswerable(features, logits))

    def _ends(self, features: Tensor, tokens: Tensor, allowed: Tensor, starts: Tensor) -> Tensor:
        """Logits of shape (B, T) given one start a window.

        A dense layer on the two representations side by side is the sum of a layer on each.
        """
        start = features[torch.arange(len(starts), device=starts.device), starts]
        inner = self.activation_fn(tokens + self.end_start(start)[:, None])
        return self.end(inner).squeeze(-1).float().masked_fill(~allowed, -torch.inf)

    def _unanswerable(self, features: Tensor, logits: Tensor) -> Tensor | None:
        if self.answerability is None:
            return None
        weights = logits.softmax(dim=1).to(features.dtype)
        average = torch.einsum("bt,bth->bh", weights, features)
        inner = self.activation_fn(self.answerability["dense"](torch.cat([features[:, 0], average], dim=1)))
        return self.answerability["out_proj"](inner).squeeze(-1).float()
