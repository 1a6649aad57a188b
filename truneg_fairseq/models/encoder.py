"""BERT's encoder and its heads on top of fairseq's: positions, segments, scaled dot-product attention; batch first.

State dicts keep fairseq's names; new are ``embed_segments`` and, where widths differ, ``embed_project``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules import FairseqDropout, LayerNorm
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from ..objectives import gather_rows

# Dropout, and attention with it, made cheap on CPUs. There torch draws one random number an element, which costs as
# much as a 256 x 256 linear layer. Here one draw of 64 bits serves four; on other devices these functions are torch's.
_LANES = 4
_LEVELS = 1 << 16

SEGMENTS = 2
"""BERT's token types: the first sentence with its separator, and what follows."""


def dropout(x: Tensor, probability: float) -> Tensor:
    """As torch's; on a CPU the probability is rounded to a multiple of 1/65,536, which the scale takes into account."""
    if probability == 0.0:
        return x
    if x.device.type != "cpu" or probability == 1.0:
        return F.dropout(x, probability)
    dropped = round(probability * _LEVELS)
    # All 64 bits; random_() alone would leave the highest 0.
    bits = torch.empty(-(-x.numel() // _LANES), dtype=torch.int64).random_(-(2**63), None)
    # In place, the comparison of 16-bit numbers is ten times faster than one that makes booleans; and bytes are faster
    # to multiply than booleans.
    kept = bits.view(torch.int16)[: x.numel()].ge_(dropped - _LEVELS // 2).to(torch.uint8).view(x.shape)
    return (x * kept).mul_(_LEVELS / (_LEVELS - dropped))


def attend(query: Tensor, key: Tensor, value: Tensor, attended: Tensor | None, probability: float) -> Tensor:
    """Scaled dot-product attention of A heads, shape (B, A, T, D) each, its weights dropped with a probability.

    ``attended``, bool, shape (B, 1, 1, T), are the keys to attend to; None for all.
    """
    if query.device.type != "cpu" or probability in (0.0, 1.0):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=attended, dropout_p=probability)
    scores = (query * query.size(-1) ** -0.5) @ key.transpose(2, 3)
    if attended is not None:
        # Not -inf: a sequence of nothing but padding would have no weights.
        scores = scores.masked_fill(~attended, torch.finfo(scores.dtype).min)
    return dropout(scores.softmax(dim=-1), probability) @ value


def layer_states(features: Tensor, extra: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Every layer's states, shape (B, T, H) each, of what a fairseq encoder gives with ``return_all_hiddens``.

    Of the ``inner_states``, shape (T, B, H) each, the first are the embeddings.
    """
    return (*(state.transpose(0, 1) for state in extra["inner_states"][1:-1]), features)


def segments_from_separators(tokens: Tensor, separator: int) -> Tensor:
    """BERT's token types, int64, shape (B, T): 0 up to the first ``</s>`` (``separator``) and with it, 1 after it."""
    is_separator = tokens.eq(separator)
    return (is_separator.cumsum(dim=1) - is_separator.long()).clamp_(max=SEGMENTS - 1)


class SelfAttention(nn.Module):
    """Multi-head self-attention through :func:`attend`, with fairseq's names of the parameters."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, attended: Tensor | None, positions: Tensor | None = None) -> Tensor:
        """Attends from x, shape (B, T, H); with ``positions``, int64, shape (N,), from these alone: (N, H)."""
        query, key, value = (self._heads(projection(x)) for projection in (self.q_proj, self.k_proj, self.v_proj))
        context = attend(query, key, value, attended, self.dropout if self.training else 0.0)
        context = context.transpose(1, 2).reshape(x.shape)
        return self.out_proj(context if positions is None else gather_rows(context, positions))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """fairseq's, but for "gelu", for which fairseq copies 16 bits to fp32: torch's kernel gives the same without."""
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)


class EncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer, post-norm, batch first."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.activation_fn = activation_function(cfg.activation_fn)

    def build_self_attention(self, embed_dim: int, cfg: Any) -> SelfAttention:
        return SelfAttention(embed_dim, cfg.encoder.attention_heads, cfg.attention_dropout)

    def forward(self, x: Tensor, attended: Tensor | None, positions: Tensor | None = None) -> Tensor:
        """See :meth:`SelfAttention.forward`."""
        attention = _apply(self.dropout_module, self.self_attn(x, attended, positions))
        x = self.self_attn_layer_norm((x if positions is None else gather_rows(x, positions)) + attention)
        inner = _apply(self.activation_dropout_module, self.activation_fn(self.fc1(x)))
        return self.final_layer_norm(x + _apply(self.dropout_module, self.fc2(inner)))


class SentenceEncoder(TransformerEncoder):
    """The encoder of BERT and ELECTRA; embeddings of another width than the layers' are projected."""

    def __init__(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        super().__init__(args, dictionary, embed_tokens)
        width, hidden = embed_tokens.embedding_dim, args.encoder_embed_dim
        self.separator = dictionary.eos()
        # Of a batch's columns 0, 1, ..., as in BERT; fairseq counts from the padding id + 1 and skips padding.
        self.embed_positions = nn.Embedding(args.max_positions, width)
        self.embed_segments = nn.Embedding(SEGMENTS, width)
        self.embed_project = nn.Linear(width, hidden) if width != hidden else None

    def build_encoder_layer(self, args: Any) -> nn.Module:
        cfg = TransformerConfig.from_namespace(args)
        return fsdp_wrap(EncoderLayer(cfg), min_num_params=cfg.min_params_to_wrap)

    def forward(
        self,
        src_tokens: Tensor,
        token_embeddings: Tensor | None = None,
        padded: bool | None = None,
        positions: Tensor | None = None,
    ) -> list[Tensor]:
        """The first layer's input and what every layer gives, shape (B, T, H) each; the last one at ``positions``.

        Args:
            src_tokens: int64, shape (B, T).
            token_embeddings: shape (B, T, E), in place of the tokens' own.
            padded: whether there is padding; None finds out, with a host-device sync.
            positions: int64, shape (N,), in the flattened (B, T): of the others the last layer, which gives states of
                shape (N, H), computes keys and values alone. Where one token in seven is needed, that is half its work.
        """
        padding = src_tokens.eq(self.padding_idx)
        attended = ~padding[:, None, None] if (padding.any() if padded is None else padded) else None
        words = self.embed_tokens(src_tokens) if token_embeddings is None else token_embeddings
        segments = self.embed_segments(segments_from_separators(src_tokens, self.separator))
        positioned = words + segments + self.embed_positions.weight[: src_tokens.size(1)]
        x = _apply(self.dropout_module, self.layernorm_embedding(positioned))
        states = [x if self.embed_project is None else self.embed_project(x)]
        layers = list(self.layers)  # drawn once: --encoder-layerdrop leaves some out, perhaps all
        for number, layer in enumerate(layers, start=1):
            states.append(layer(states[-1], attended, positions if number == len(layers) else None))
        if positions is not None and not layers:
            states[-1] = gather_rows(states[-1], positions)
        return states


def _apply(module: FairseqDropout, x: Tensor) -> Tensor:
    """fairseq's dropout by :func:`dropout`."""
    return dropout(x, module.p if module.training or module.apply_during_inference else 0.0)


class LmHead(nn.Module):
    """As fairseq's, with a dense layer to the width of ``weight``, shape (V, E): the tied embeddings, or its own."""

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
        return F.linear(x, self.weight, self.bias)


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


class ClassificationHead(nn.Module):
    """The first token's features, of shape (B, T, H), through dropout and a linear layer; logits of shape (B, C).

    BERT's has a layer of width ``inner`` and tanh before, ELECTRA's has none.
    """

    def __init__(self, hidden: int, classes: int, dropout: float, inner: int | None, activation_fn: str) -> None:
        super().__init__()
        self.dense = None if inner is None else nn.Linear(hidden, inner)
        self.activation_fn = activation_function(activation_fn)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(inner or hidden, classes)

    def forward(self, features: Tensor, **unused: Any) -> Tensor:
        first = features[:, 0]
        return self.out_proj(self.dropout(first if self.dense is None else self.activation_fn(self.dense(first))))


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
