"""What stands on the encoder: the masked-LM head, ELECTRA's discriminator, and heads that classify a sequence."""

from __future__ import annotations

from typing import Any

import torch
from fairseq import utils
from fairseq.modules import LayerNorm
from torch import Tensor, nn


class LmHead(nn.Module):
    """BERT's and ELECTRA's masked-LM head: dense, activation, LayerNorm, projection with the word embeddings.

    fairseq's RobertaLMHead with a dense layer that leads from the encoder's width to the embeddings'.

    Args:
        hidden: the encoder's width H.
        weight: shape (V, E), the embeddings to tie to, or those of a head of its own.
        activation_fn: fairseq's name of the activation.
    """

    def __init__(self, hidden: int, weight: nn.Parameter, activation_fn: str) -> None:
        super().__init__()
        size, width = weight.shape
        self.dense = nn.Linear(hidden, width)
        self.activation_fn = utils.get_activation_fn(activation_fn)
        self.layer_norm = LayerNorm(width)
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, features: Tensor, masked_tokens: Tensor | None = None, **unused: Any) -> Tensor:
        """Logits.

        Args:
            features: shape (B, T, H).
            masked_tokens: bool, shape (B, T), the positions to project; None for all.
            unused: what fairseq's encoders pass along.

        Returns:
            shape (N, V) for N positions, or (B, T, V) for all.
        """
        if masked_tokens is not None:
            features = features[masked_tokens]
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        return nn.functional.linear(x, self.weight, self.bias)


class DiscriminatorHead(nn.Module):
    """ELECTRA's replaced-token detector: dense, activation, one logit a token."""

    def __init__(self, hidden: int, activation_fn: str) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.activation_fn = utils.get_activation_fn(activation_fn)
        self.out_proj = nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of shape (B, T), positive for "replaced", of features of shape (B, T, H)."""
        return self.out_proj(self.activation_fn(self.dense(features))).squeeze(-1)


class PooledClassificationHead(nn.Module):
    """BERT's: the first token through a dense layer and tanh (its pooler), dropout, and a linear classifier."""

    def __init__(self, hidden: int, inner: int, classes: int, activation_fn: str, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, inner)
        self.activation_fn = utils.get_activation_fn(activation_fn)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(inner, classes)

    def forward(self, features: Tensor, **unused: Any) -> Tensor:
        """Logits of shape (B, C) of features of shape (B, T, H)."""
        return self.out_proj(self.dropout(self.activation_fn(self.dense(features[:, 0]))))


class LinearClassificationHead(nn.Module):
    """ELECTRA's: the first token, dropout, and a linear classifier."""

    def __init__(self, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(hidden, classes)

    def forward(self, features: Tensor, **unused: Any) -> Tensor:
        """Logits of shape (B, C) of features of shape (B, T, H)."""
        return self.out_proj(self.dropout(features[:, 0]))
