"""ELECTRA for fairseq: the model ``electra`` with the published sizes.

Under a task of replaced-token detection (``electra_pretraining``) it is generator and discriminator with shared
embeddings; under any other, the discriminator's encoder alone, with a masked-LM head of its own for masked-LM tasks.
"""

from __future__ import annotations

import copy
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from ..objectives.passes import dropout_off
from ..optim import tag_parameters
from .bert import BertEncoder, BertModel, bert_architecture, register_sizes, set_defaults
from .encoder import layer_states, rows_at
from .heads import DiscriminatorHead, LinearClassificationHead
from .hub_interface import ElectraHubInterface


class Replacement(NamedTuple):
    """What becomes of the generator's logits."""

    predicted: Any  # the predictions, as the criterion wants them
    sampled: Tensor  # int64, shape (N,), the tokens in place of the masked ones
    tokens: Tensor  # int64, shape (B, T), the sentences with them
    # int64, shape (N,), indices into the flattened (B, T), where the states of all layers are asked for
    compared: Tensor | None = None


class OriginalPasses(NamedTuple):
    """What a pre-training step reads of the sentences as they were."""

    tokens: Tensor  # int64, shape (B, T)
    encode: bool = True  # whether the discriminator encodes them, without gradient
    predict: bool = False  # whether the generator reads them, without gradient and dropout
    dropout: bool = True  # whether the discriminator's pass has dropout


class ReplacedTokens(NamedTuple):
    """What one pre-training step computes; see :meth:`ElectraModel.forward`."""

    generator_logits: Tensor  # shape (N, V), at the masked positions
    replacement: Replacement  # what ``replace`` gave; ``replacement.tokens`` is what the discriminator saw
    discriminator_logits: Tensor  # shape (B, T), positive for "replaced"
    features: Tensor  # shape (B, T, H), the discriminator's last states on these tokens
    original_features: Tensor | None  # the same on the original tokens, where they were asked for
    visible_logits: Tensor | None  # shape (N, V), of the generator on the original tokens, where they were asked for
    # shape (L, N, H), all the discriminator's states at ``replacement.compared``, without gradient
    layers: Tensor | None
    original_layers: Tensor | None  # the same on the original tokens


@register_model("electra")
class ElectraModel(BertModel):
    """ELECTRA (Clark et al., 2020): the discriminator is ``encoder``, and what fine-tuning loads."""

    name = "electra"
    hub_interface = ElectraHubInterface

    def __init__(self, args: Any, encoder: BertEncoder, generator: BertEncoder | None = None) -> None:
        super().__init__(args, encoder)
        self.generator: BertEncoder | None = None
        self.discriminator_head: DiscriminatorHead | None = None
        if generator is not None:
            self.generator = generator.apply(init_bert_params)
            self.discriminator_head = DiscriminatorHead(args.encoder_embed_dim, args.activation_fn)
            self.discriminator_head.apply(init_bert_params)
            self._share_embeddings(generator)
            encoder.lm_head = None
            tag_parameters(self)

    def _share_embeddings(self, generator: BertEncoder) -> None:
        """Word, position and segment embeddings and their LayerNorm; each side keeps its own projection."""
        ours, theirs = self.encoder.sentence_encoder, generator.sentence_encoder
        for part in ("embed_tokens", "embed_positions", "embed_segments", "layernorm_embedding"):
            setattr(theirs, part, getattr(ours, part))
        if not self.args.untie_weights_roberta:
            generator.lm_head.weight = ours.embed_tokens.weight

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        BertModel.add_args(parser)
        for name, what in (
            ("layers", "layers"),
            ("embed-dim", "width of the layers"),
            ("ffn-embed-dim", "width of the feed-forward layers"),
            ("attention-heads", "attention heads"),
        ):
            parser.add_argument(f"--generator-{name}", type=int, metavar="N", help=f"the generator's {what}")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> ElectraModel:
        """Called by fairseq; generator and discriminator's head only for a task of replaced-token detection."""
        model = super().build_model(args, task)
        if not getattr(task, "replaced_token_detection", False):
            return model
        generator = BertEncoder(generator_arguments(args), task.source_dictionary)
        return cls(args, model.encoder, generator)

    def build_classification_head(self, classes: int, inner_dim: int | None) -> nn.Module:
        """ELECTRA's head, which has no inner layer."""
        return LinearClassificationHead(self.args.encoder_embed_dim, classes, self.args.pooler_dropout)

    def replaceable_parts(self) -> tuple[str, ...]:
        """The discriminator alone goes into fine-tuning; pre-training goes on with both halves."""
        halves = ("generator.", "discriminator_head.") if self.generator is None else ()
        return (*super().replaceable_parts(), *halves)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        *,
        replace: Callable[[Tensor], Replacement] | None = None,
        original: OriginalPasses | None = None,
        **kwargs: Any,
    ) -> Any:
        """As for BERT, with the generator, if any, as masked LM; with ``replace`` a pre-training step.

        The whole step is one forward pass, as data parallelism wants it: ``replace`` takes the generator's logits at
        the masked positions, shape (N, V), and gives what the discriminator sees; ``original`` is what to read of the
        original sentences, too. It gives :class:`ReplacedTokens`. See :class:`BertEncoder` for the other arguments.
        """
        if replace is not None:
            return self._replace_tokens(src_tokens, replace, original, **kwargs)
        if features_only or classification_head_name is not None or self.generator is None:
            return super().forward(src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs)
        return self.generator(src_tokens, False, return_all_hiddens, **kwargs)

    def _replace_tokens(
        self,
        src_tokens: Tensor,
        replace: Callable[[Tensor], Replacement],
        original: OriginalPasses | None,
        *,
        padded: bool | None = None,
        **kwargs: Any,
    ) -> ReplacedTokens:
        assert self.generator is not None
        assert self.discriminator_head is not None
        generator_logits, _ = self.generator(src_tokens, padded=padded, **kwargs)
        replacement = replace(generator_logits)

        def discriminate(tokens: Tensor) -> tuple[Tensor, Tensor | None]:
            return self._discriminate(tokens, src_tokens, replacement.compared, padded)

        features, layers = discriminate(replacement.tokens)
        original_features = original_layers = visible_logits = None
        if original is not None and original.encode:
            with torch.no_grad(), dropout_off(self.encoder, not original.dropout):
                original_features, original_layers = discriminate(original.tokens)
        if original is not None and original.predict:
            with torch.no_grad(), dropout_off(self.generator):
                visible_logits, _ = self.generator(original.tokens, padded=padded, **kwargs)
        scores = self.discriminator_head(features)
        return ReplacedTokens(
            generator_logits, replacement, scores, features, original_features, visible_logits, layers, original_layers
        )

    def _discriminate(
        self, tokens: Tensor, src_tokens: Tensor, compared: Tensor | None, padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        """The discriminator's features, shape (B, T, H), and all layers' states at ``compared``, shape (L, N, H).

        Segments and padding are those of ``src_tokens``: a sampled ``</s>`` or ``<pad>`` is a wrong word like others.
        """
        words = self.encoder.sentence_encoder.embed_tokens(tokens)
        features, extra = self.encoder.extract_features(
            src_tokens, compared is not None, token_embeddings=words, padded=padded
        )
        if compared is None:
            return features, None
        return features, torch.stack([rows_at(state.detach(), compared) for state in layer_states(features, extra)])


def generator_arguments(args: Any) -> Any:
    """The arguments of the generator as those of an encoder."""
    args = copy.deepcopy(args)
    for size in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads"):
        setattr(args, f"encoder_{size}", getattr(args, f"generator_{size}"))
    return args


class ElectraSize(NamedTuple):
    """The numbers that an architecture's name stands for."""

    encoder_layers: int
    encoder_embed_dim: int
    encoder_ffn_embed_dim: int
    encoder_attention_heads: int
    embedding_dim: int
    generator_layers: int
    generator_embed_dim: int
    generator_ffn_embed_dim: int
    generator_attention_heads: int


ELECTRA_SIZES = {
    "electra_tiny": ElectraSize(2, 128, 512, 2, 64, 2, 64, 256, 1),
    "electra_small": ElectraSize(12, 256, 1024, 4, 128, 12, 64, 256, 1),
    "electra_small_plus": ElectraSize(12, 256, 1024, 4, 128, 12, 256, 1024, 4),
    "electra_base": ElectraSize(12, 768, 3072, 12, 768, 12, 256, 1024, 4),
    "electra_large": ElectraSize(24, 1024, 4096, 16, 1024, 24, 256, 1024, 4),
}
"""By architecture, as released, but for ``electra_tiny``, which is for trying things out. ``electra_small_plus`` is the
released ELECTRA-small, whose generator is as wide as its discriminator."""


@register_model_architecture("electra", "electra")
def electra_architecture(args: Any) -> None:
    """Defaults of all sizes; the size itself is ELECTRA-small."""
    set_defaults(args, **ELECTRA_SIZES["electra_small"]._asdict())
    bert_architecture(args)


register_sizes("electra", ELECTRA_SIZES, electra_architecture)
