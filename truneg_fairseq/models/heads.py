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
    ends: Tensor  # shape (B, T)


class QuestionAnsweringHead(nn.Module):
    """The head of BERT and of each Hugging Face encoder: one linear layer gives start and end, independently."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.out_proj = nn.Linear(hidden, 2)

    def forward(self, features: Tensor, allowed: Tensor) -> AnswerLogits:
        """Logits of features of shape (B, T, H); ``allowed``, bool, shape (B, T), is where answers may begin or end."""
        logits = self.out_proj(features).float().masked_fill(~allowed[..., None], -torch.inf)
        return AnswerLogits(*logits.unbind(-1))
