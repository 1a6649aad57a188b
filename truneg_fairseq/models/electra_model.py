"""ELECTRA for fairseq: the model ``electra`` with the published sizes.

Under a task of replaced-token detection (``electra_pretraining``) it is generator and discriminator with shared
embeddings; under any other, the discriminator's encoder alone, with a masked-LM head of its own for masked-LM tasks.
"""

from __future__ import annotations

import copy
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, NamedTuple

from fairseq.models import register_model, register_model_architecture
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor

from ..errors import one_line_errors
from ..flags import flag_of
from ..optim import tag_parameters
from .bert import SIZE, BertEncoder, BertModel, bert_architecture, register_sizes, set_defaults
from .encoder import DiscriminatorHead, layer_states


class ReplacedTokens(NamedTuple):
    """What one pre-training step computes; see :meth:`ElectraModel.forward`."""

    tokens: Tensor  # int64, shape (B, T), what the discriminator read
    logits: Tensor  # shape (B, T), the discriminator's, positive for "replaced"
    # shape (B, T, H) each, the discriminator's last layer alone, or every layer where they were asked for
    hidden_states: tuple[Tensor, ...]
    generator_logits: Tensor  # shape (N, V), at the masked positions


@register_model("electra")
class ElectraModel(BertModel):
    """ELECTRA (Clark et al., 2020): the discriminator is ``encoder``, and what fine-tuning loads."""

    name = "electra"
    has_pooler = False

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
        for own, name in _GENERATOR.items():
            parser.add_argument(flag_of(name), type=int, metavar="N", help=f"the generator's {flag_of(own)}")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> ElectraModel:
        """The generator and the discriminator's head are only for a task of replaced-token detection."""
        model = super().build_model(args, task)
        if not getattr(task, "replaced_token_detection", False):
            return model
        of_generator = copy.deepcopy(args)
        for own, name in _GENERATOR.items():
            setattr(of_generator, own, getattr(args, name))
        with one_line_errors():
            return cls(args, model.encoder, BertEncoder(of_generator, task.source_dictionary))

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
        replace: Callable[[Tensor], Tensor] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As for BERT, with the generator, if any, as masked LM; with ``replace`` a step: :class:`ReplacedTokens`.

        ``replace`` takes the generator's logits at the masked positions, shape (N, V), and gives what the discriminator
        reads, int64, shape (B, T): one forward pass, as data parallelism wants it.
        """
        if replace is None:
            if features_only or classification_head_name is not None or self.generator is None:
                return super().forward(
                    src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs
                )
            return self.generator(src_tokens, False, return_all_hiddens, **kwargs)
        assert self.generator is not None
        assert self.discriminator_head is not None
        generator_logits, _ = self.generator(src_tokens, **kwargs)
        tokens = replace(generator_logits)
        # Segments and padding are those of ``src_tokens``: a sampled ``</s>`` or ``<pad>`` is a wrong word like others.
        words = self.encoder.sentence_encoder.embed_tokens(tokens)
        features, extra = self.encoder.extract_features(src_tokens, return_all_hiddens, words, kwargs.get("padded"))
        states = layer_states(features, extra) if return_all_hiddens else (features,)
        return ReplacedTokens(tokens, self.discriminator_head(features), tuple(states), generator_logits)


_GENERATOR = {name: name.replace("encoder_", "generator_") for name in SIZE}
ELECTRA_SIZE = (*SIZE, "embedding_dim", *_GENERATOR.values())

ELECTRA_SIZES = {
    "electra_tiny": (2, 128, 512, 2, 64, 2, 64, 256, 1),
    "electra_small": (12, 256, 1024, 4, 128, 12, 64, 256, 1),
    "electra_small_plus": (12, 256, 1024, 4, 128, 12, 256, 1024, 4),
    "electra_base": (12, 768, 3072, 12, 768, 12, 256, 1024, 4),
    "electra_large": (24, 1024, 4096, 16, 1024, 24, 256, 1024, 4),
}
"""By architecture, as released, but for ``electra_tiny``, which is for trying things out. ``electra_small_plus`` is the
released ELECTRA-small, whose generator is as wide as its discriminator."""


@register_model_architecture("electra", "electra")
def electra_architecture(args: Any) -> None:
    """Defaults of all sizes; the size itself is ELECTRA-small."""
    set_defaults(args, **dict(zip(ELECTRA_SIZE, ELECTRA_SIZES["electra_small"], strict=True)))
    bert_architecture(args)


register_sizes("electra", ELECTRA_SIZE, ELECTRA_SIZES, electra_architecture)
