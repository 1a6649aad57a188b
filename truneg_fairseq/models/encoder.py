"""BERT's encoder on top of that of fairseq: absolute positions, segments, scaled dot-product attention; batch first.

Only what differs from fairseq's encoder is here. State dicts keep fairseq's names; new are ``embed_segments`` and,
where embeddings and layers differ in width, ``embed_project``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules import FairseqDropout
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from .dropout import attend, dropout

SEGMENTS = 2
"""BERT's token types: the first sentence with its separator, and what follows."""


class AbsolutePositions(nn.Embedding):
    """Learned embeddings of the positions 0, 1, ... of a batch's columns, as BERT has them.

    fairseq's own count from the padding id + 1 and skip padding, which takes two rows more. On sequences padded on the
    right, as fairseq's masked-LM and sentence tasks pad them, both number the tokens alike.
    """

    @property
    def max_positions(self) -> int:
        return self.num_embeddings

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings of shape (1, T, E) for tokens of shape (B, T)."""
        return self.weight[None, : tokens.size(1)]


def rows_at(grid: Tensor, positions: Tensor) -> Tensor:
    """Rows of a grid, shape (B, T, H), at indices into its flattened (B, T), int64, shape (N,); shape (N, H).

    Indices instead of a mask: counting a mask needs a host-device sync.
    """
    return grid.reshape(-1, grid.size(-1)).index_select(0, positions)


def layer_states(features: Tensor, extra: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Every layer's states, shape (B, T, H) each, of what a fairseq encoder gives with ``return_all_hiddens``.

    The features are those of the last layer, after the last LayerNorm of a pre-norm encoder; of the ``inner_states``,
    shape (T, B, H) each, the first are the embeddings.
    """
    return (*(state.transpose(0, 1) for state in extra["inner_states"][1:-1]), features)


def segments_from_separators(tokens: Tensor, separator: int) -> Tensor:
    """BERT's token types, int64, shape (B, T): 0 up to the first ``</s>`` (``separator``) and with it, 1 after it."""
    is_separator = tokens.eq(separator)
    return (is_separator.cumsum(dim=1) - is_separator.long()).clamp_(max=SEGMENTS - 1)


class SelfAttention(nn.Module):
    """Multi-head self-attention through :func:`attend`, with fairseq's names of the parameters.

    ``dropout`` is the probability of dropping an attention weight.
    """

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
        """Attends from x, shape (B, T, H); gives the same shape, or (N, H) of N positions.

        ``attended``, bool, shape (B, 1, 1, T), are the keys to attend to; None for all, which allows flash attention.
        ``positions``, int64, shape (N,), are indices into the flattened (B, T), those to answer for; None for all.
        """
        query, key, value = (self._heads(projection(x)) for projection in (self.q_proj, self.k_proj, self.v_proj))
        context = attend(query, key, value, attended, self.dropout if self.training else 0.0)
        context = context.transpose(1, 2).reshape(x.shape)
        return self.out_proj(context if positions is None else rows_at(context, positions))

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """fairseq's, but for "gelu": there fairseq computes in fp32 copies of 16 bits. torch's kernel does so without them,
    and gives the same.
    """
    function: Callable[[Tensor], Tensor] = F.gelu if name == "gelu" else utils.get_activation_fn(name)
    return function


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
        x = self.self_attn_layer_norm((x if positions is None else rows_at(x, positions)) + attention)
        inner = _apply(self.activation_dropout_module, self.activation_fn(self.fc1(x)))
        return self.final_layer_norm(x + _apply(self.dropout_module, self.fc2(inner)))


class SentenceEncoder(TransformerEncoder):
    """The encoder of BERT and ELECTRA.

    Where the width of the word embeddings is not that of the layers (``encoder_embed_dim``), their sum with positions
    and segments is projected.
    """

    def __init__(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        super().__init__(args, dictionary, embed_tokens)
        width, hidden = embed_tokens.embedding_dim, args.encoder_embed_dim
        self.separator = dictionary.eos()
        self.embed_positions = AbsolutePositions(args.max_positions, width)
        self.embed_segments = nn.Embedding(SEGMENTS, width)
        self.embed_project = nn.Linear(width, hidden) if width != hidden else None

    def build_encoder_layer(self, args: Any) -> nn.Module:
        cfg = TransformerConfig.from_namespace(args)
        return fsdp_wrap(EncoderLayer(cfg), min_num_params=cfg.min_params_to_wrap)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The first layer's input, shape (B, T, H), and the words' embeddings, shape (B, T, E)."""
        words = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
        segments = self.embed_segments(segments_from_separators(src_tokens, self.separator))
        x = _apply(self.dropout_module, self.layernorm_embedding(words + segments + self.embed_positions(src_tokens)))
        return x if self.embed_project is None else self.embed_project(x), words

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        padded: bool | None = None,
    ) -> dict[str, list[Tensor]]:
        """What fairseq's encoder gives: ``encoder_out`` and ``encoder_states`` of shape (T, B, H), and the rest.

        ``token_embeddings``, shape (B, T, E), are used in place of the tokens' own; ``padded`` is whether there is
        padding among the tokens. None finds out, with a host-device sync. ``src_lengths`` are ignored, as in fairseq.
        """
        padding, attended = self._padding(src_tokens, padded)
        x, words = self.forward_embedding(src_tokens, token_embeddings)
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1], attended))
        return {
            "encoder_out": [states[-1].transpose(0, 1)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [words],
            "encoder_states": [state.transpose(0, 1) for state in states] if return_all_hiddens else [],
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding).sum(dim=1, dtype=torch.int32)[:, None]],
        }

    def states_at(
        self, positions: Tensor, src_tokens: Tensor, token_embeddings: Tensor | None = None, padded: bool | None = None
    ) -> Tensor:
        """The last layer's states at some positions only, as :meth:`forward` computes them at all.

        The others are read by the last layer's attention, but what comes behind it is left out for them: where one
        token in seven is needed, half of that layer's work. ``positions``, int64, shape (N,), are indices into the
        flattened (B, T); the states have the shape (N, H).
        """
        _, attended = self._padding(src_tokens, padded)
        x, _ = self.forward_embedding(src_tokens, token_embeddings)
        layers = list(self.layers)  # drawn once: --encoder-layerdrop leaves some out, perhaps all
        for layer in layers[:-1]:
            x = layer(x, attended)
        return layers[-1](x, attended, positions) if layers else rows_at(x, positions)

    def _padding(self, tokens: Tensor, padded: bool | None) -> tuple[Tensor, Tensor | None]:
        """Where padding is, shape (B, T), and the keys to attend to, shape (B, 1, 1, T) or None for all."""
        padding = tokens.eq(self.padding_idx)
        if padded is None:
            padded = bool(padding.any())
        return padding, ~padding[:, None, None] if padded else None


def _apply(module: FairseqDropout, x: Tensor) -> Tensor:
    """fairseq's dropout by :func:`dropout`."""
    return dropout(x, module.p if module.training or module.apply_during_inference else 0.0)


def set_layer_norm_eps(module: nn.Module, eps: float) -> None:
    """fairseq's constructors leave LayerNorm's eps at 1e-5."""
    for part in module.modules():
        if hasattr(part, "normalized_shape"):  # torch's class, or the one of apex that fairseq prefers
            setattr(part, "eps", eps)  # noqa: B010  (no type that both share)
