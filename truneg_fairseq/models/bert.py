"""BERT for fairseq, equal to the original to rounding: RoBERTa with BERT's embeddings, segments and LayerNorm eps."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.fairseq_model import FairseqEncoderModel
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import base_architecture as roberta_architecture
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from ..errors import TrueNegError, one_line_errors
from ..optim import tag_parameters
from .checkpoints import modules_of
from .encoder import ClassificationHead, LmHead, QuestionAnsweringHead, SentenceEncoder

logger = logging.getLogger(__name__)

LAYER_NORM_EPS = 1e-12
INIT_STD = 0.02
_POSITIONS = "sentence_encoder.embed_positions.weight"


class BertEncoder(RobertaEncoder):
    """The encoder and its masked-LM head."""

    def __init__(self, args: Any, dictionary: Any) -> None:
        width, heads = args.encoder_embed_dim, args.encoder_attention_heads
        if width % heads:
            raise TrueNegError(
                f"found {heads} attention heads in layers of width {width}; expected a divisor of the width"
            )
        super().__init__(args, dictionary)
        for part in self.modules():  # fairseq's constructors leave LayerNorm's eps at 1e-5
            if hasattr(part, "normalized_shape"):  # torch's class, or the one of apex that fairseq prefers
                vars(part)["eps"] = args.layer_norm_eps

    def build_embedding(self, vocab_size: int, embedding_dim: int, padding_idx: int) -> nn.Embedding:
        """Word embeddings of width E, which need not be the layers'."""
        return nn.Embedding(vocab_size, self.args.embedding_dim, padding_idx)

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> SentenceEncoder:
        encoder = SentenceEncoder(args, dictionary, embed_tokens)
        encoder.apply(init_bert_params)
        return encoder

    def build_lm_head(self, embed_dim: int, output_dim: int, activation_fn: str, weight: nn.Parameter | None) -> LmHead:
        """The head, tied to ``weight`` unless that is None."""
        if weight is None:
            weight = nn.Parameter(torch.empty(output_dim, self.args.embedding_dim).normal_(std=INIT_STD))
        return LmHead(embed_dim, weight, activation_fn)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        masked_tokens: Tensor | None = None,
        *,
        masked_positions: Tensor | None = None,
        token_embeddings: Tensor | None = None,
        padded: bool | None = None,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """As fairseq's RobertaEncoder, with ``token_embeddings`` and ``padded``: see :class:`SentenceEncoder`.

        ``masked_positions``, int64, shape (N,), is where ``masked_tokens``, shape (B, T), are true in the flattened
        (B, T), in order; None finds out, with a device sync.
        """
        if masked_tokens is not None and not features_only and not return_all_hiddens:
            if masked_positions is None:
                masked_positions = masked_tokens.reshape(-1).nonzero().squeeze(1)
            states = self.sentence_encoder(src_tokens, token_embeddings, padded, masked_positions)
            return self.output_layer(states[-1]), {"inner_states": None}
        x, extra = self.extract_features(src_tokens, return_all_hiddens, token_embeddings, padded)
        return x if features_only else self.output_layer(x, masked_tokens=masked_tokens), extra

    def extract_features(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        padded: bool | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The last layer's states, shape (B, T, H), and the ``inner_states``, shape (T, B, H), where asked for."""
        states = self.sentence_encoder(src_tokens, token_embeddings, padded)
        inner = [state.transpose(0, 1) for state in states] if return_all_hiddens else None
        return states[-1], {"inner_states": inner}


@register_model("bert")
class BertModel(RobertaModel):
    """BERT without the next-sentence task; what follows the first ``</s>`` is the second segment."""

    name = "bert"
    has_pooler = True  # a layer before that of a classification head

    def __init__(self, args: Any, encoder: BertEncoder) -> None:
        super().__init__(args, encoder)
        self.question_answering_head: QuestionAnsweringHead | None = None
        self.missing_heads: list[str] = []  # parameters of heads that the checkpoint did not have
        tag_parameters(self)

    @classmethod
    def from_pretrained(cls, *arguments: Any, **keywords: Any) -> Any:
        """Refused: fairseq's would unpickle the file, and knows neither BERT's sentences nor the data's tokenizer."""
        raise TrueNegError(
            "from_pretrained: expected a model of transformers; run truneg convert CKPT.pt DIR, and give DIR to its "
            "pipeline() or AutoModel"
        )

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        RobertaModel.add_args(parser)
        parser.add_argument(
            "--embedding-dim", type=int, metavar="E", help="width of the embeddings (default: that of the architecture)"
        )
        parser.add_argument("--layer-norm-eps", type=float, metavar="EPS", help="LayerNorm's eps (default: 1e-12)")

    @classmethod
    def build_model(cls, args: Any, task: Any) -> BertModel:
        """Called by fairseq; ``args`` is a Namespace (fairseq-train) or a DictConfig (hydra)."""
        # hydra's configuration refuses new keys unless told not to.
        with open_dict(args) if OmegaConf.is_config(args) else nullcontext(), one_line_errors():
            ARCH_CONFIG_REGISTRY[cls.name](args)  # what neither the command line nor an architecture has set
            if args.encoder_normalize_before:
                raise TrueNegError(
                    "--encoder-normalize-before: the layers of BERT and ELECTRA normalise afterwards; leave it out"
                )
            return cls(args, BertEncoder(args, task.source_dictionary))

    def register_classification_head(
        self, name: str, num_classes: int | None = None, inner_dim: int | None = None, **kwargs: Any
    ) -> None:
        """Adds a head (fairseq's sentence_prediction task calls this); one of the same name is replaced."""
        args, hidden = self.args, self.args.encoder_embed_dim
        inner = inner_dim or hidden if self.has_pooler else None
        head = ClassificationHead(hidden, num_classes or 2, args.pooler_dropout, inner, args.pooler_activation_fn)
        head.apply(init_bert_params).train(self.training)
        self.classification_heads[name] = head
        tag_parameters(self)

    def register_question_answering_head(self) -> None:
        """In place of the masked-LM head."""
        self.question_answering_head = QuestionAnsweringHead(self.args.encoder_embed_dim).apply(init_bert_params)
        self.encoder.lm_head = None
        tag_parameters(self)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        *,
        answers_allowed: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """As :class:`BertEncoder`, or :class:`.AnswerLogits` where ``answers_allowed``, bool, shape (B, T)."""
        if answers_allowed is None:
            return super().forward(src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs)
        assert self.question_answering_head is not None
        features, extra = super().forward(src_tokens, True, return_all_hiddens, **kwargs)
        return self.question_answering_head(features, answers_allowed), extra

    def set_num_updates(self, num_updates: int) -> None:
        """Does nothing: no module here depends on the update number, and fairseq's version visits all of them."""

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Fits a checkpoint to this model before fairseq's strict load.

        Heads that the model does not have are dropped (or registered, with ``--load-checkpoint-heads``), heads that the
        checkpoint does not have start anew, positions beyond ``--max-positions`` are cut off; the log says so.
        """
        prefix = f"{name}." if name else ""
        wanted = self.args.max_positions
        for key in [key for key in state_dict if key.startswith(prefix) and key.endswith(_POSITIONS)]:
            if (found := len(state_dict[key])) > wanted:
                logger.info("%s: the first %d of the checkpoint's %d positions are used", key, wanted, found)
                state_dict[key] = state_dict[key][:wanted].clone()
        FairseqEncoderModel.upgrade_state_dict_named(self, state_dict, name)
        if getattr(self.args, "load_checkpoint_heads", False):
            start = f"{prefix}classification_heads."
            for key in [key for key in state_dict if key.startswith(start)]:
                head, _, part = key.removeprefix(start).partition(".")
                if part == "out_proj.weight" and head not in self.classification_heads:
                    self.register_classification_head(head, *state_dict[key].shape)
        heads = tuple(f"{prefix}{head}" for head in self.replaceable_parts())
        own = {f"{prefix}{key}": value for key, value in self.state_dict().items()}
        with one_line_errors():
            for key, value in own.items():
                if not key.startswith(heads) and key in state_dict and state_dict[key].shape != value.shape:
                    raise TrueNegError(
                        f"the checkpoint's {key} has the shape {tuple(state_dict[key].shape)}, this model's has "
                        f"{tuple(value.shape)}; expected --arch, sizes and --max-positions of the checkpoint, and data "
                        "made with its dictionary and tokenizer"
                    )
        fits = {key for key, value in state_dict.items() if key in own and own[key].shape == value.shape}
        unused = [key for key in state_dict if key.startswith(heads) and key not in fits]
        self.missing_heads = [key for key in own if key.startswith(heads) and key not in fits]
        for keys, line in (
            (unused, "not used, as this model has no place for them: %s"),
            (self.missing_heads, "not in the checkpoint, these start anew: %s"),
        ):
            if keys:
                logger.info(line, ", ".join(modules_of(keys)))
        for key in unused:
            del state_dict[key]
        state_dict |= {key: own[key] for key in self.missing_heads}

    def replaceable_parts(self) -> tuple[str, ...]:
        """Prefixes of the parameters that belong to one task and need not be in a checkpoint of another."""
        return ("classification_heads.", "question_answering_head.", "encoder.lm_head.")


SIZE = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
"""The numbers that an architecture's name stands for."""

BERT_SIZES = {
    "truneg_bert_tiny": (2, 128, 512, 2),
    "truneg_bert_mini": (4, 256, 1024, 4),
    "truneg_bert_small": (4, 512, 2048, 8),
    "truneg_bert_base": (12, 768, 3072, 12),
    "truneg_bert_large": (24, 1024, 4096, 16),
}
"""By architecture, as published: Devlin et al. (2019), and Turc et al. (2019) for the small ones."""


@register_model_architecture("bert", "bert")
def bert_architecture(args: Any) -> None:
    """Defaults of all sizes; the size itself is BERT-base."""
    set_defaults(args, **dict(zip(SIZE, BERT_SIZES["truneg_bert_base"], strict=True)))
    set_defaults(
        args,
        embedding_dim=args.encoder_embed_dim,
        layer_norm_eps=LAYER_NORM_EPS,
        max_positions=512,
        pooler_dropout=0.1,
        load_checkpoint_heads=False,
    )
    roberta_architecture(args)


def set_defaults(args: Any, **defaults: Any) -> None:
    for key, value in defaults.items():
        setattr(args, key, safe_getattr(args, key, value))


def register_sizes(
    model: str, names: Sequence[str], sizes: Mapping[str, Sequence[int]], complete: Callable[[Any], None]
) -> None:
    """Registers a model's architectures: the names of the numbers, these by architecture, and what sets the rest."""

    def architecture(size: Sequence[int], args: Any) -> None:
        set_defaults(args, **dict(zip(names, size, strict=True)))
        complete(args)

    for name, size in sizes.items():
        register_model_architecture(model, name)(partial(architecture, size))


register_sizes("bert", SIZE, BERT_SIZES, bert_architecture)
