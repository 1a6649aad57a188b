"""Which tensor of a fairseq checkpoint is which of transformers' models: tables, read in both directions.

The names are those of transformers' ``modeling_{bert,electra,roberta}`` and of the state dicts of this package's
``bert`` and ``electra`` and of fairseq's ``roberta``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TOKEN_TYPES = "embeddings.token_type_embeddings.weight"
"""The input embeddings of transformers' bare models."""
NEXT_SENTENCE_HEAD = "next_sentence"
"""The classification head that BERT's pooler and next-sentence classifier become."""
POOLER_HEAD = "pooler"
"""Name of the head that holds a pooler without a classifier, so that export can restore it."""
ELECTRA_HEAD = "discriminator_head"
QUESTION_ANSWERING_HEAD = "question_answering_head"
EXPORTS = ("question-answering", "classification", "discriminator", "masked-lm", "generator", "encoder")
"""What can be taken out of a checkpoint; of several, the first one is taken unless another is asked for."""


_CLASSES = {
    "question_answering": "ForQuestionAnswering",
    "classification": "ForSequenceClassification",
    "discriminator": "ForPreTraining",
    "next_sentence": "ForPreTraining",
    "masked_lm": "ForMaskedLM",
}
"""How transformers' class ends that has a part; the first one counts."""


class Pair(NamedTuple):
    """One tensor's names."""

    ours: str  # fairseq's name. ``{stack}`` is encoder or generator, ``{layer}`` a number, ``{head}`` a head's name.
    # transformers' name. ``{base}`` is the prefix that the bare model's tensors have in a model with heads.
    theirs: str
    # One letter per dimension: V tokens, in the order of a vocabulary; P positions; E, H, F the width of embeddings,
    # layers and feed-forward layers; C classes; a digit is itself.
    dims: str

    @property
    def by_token(self) -> bool:
        """Whether the rows are in the order of a vocabulary."""
        return self.dims[0] == "V"


@dataclass(frozen=True)
class Family:
    """The models of one ``model_type``, which is also the name of the fairseq model."""

    name: str  # bert, electra or roberta
    embeddings: tuple[Pair, ...]  # always there
    layer: tuple[Pair, ...]  # once a layer
    # what is there in some models only. ``projection`` leads from the embeddings' width to the layers' where they
    # differ; ``untied`` is the masked-LM head's projection where it is not the word embeddings; the others are heads,
    # ``pooler`` being BERT's dense layer on the first token.
    parts: Mapping[str, tuple[Pair, ...]]
    # beginnings of their names that no weight of ours answers to
    ignored: tuple[str, ...] = ("embeddings.position_ids", "embeddings.token_type_ids")
    copies: Mapping[str, str] = field(default_factory=dict)  # second names, by first name, of what files may hold twice

    @property
    def title(self) -> str:
        """How the classes' names begin."""
        return self.name.title()

    @property
    def base(self) -> str:
        """The prefix of the bare model's tensors in a model with heads."""
        return f"{self.name}."

    def class_of(self, parts: Collection[str]) -> str:
        """The transformers class of a model with these parts."""
        return self.title + next((kind for part, kind in _CLASSES.items() if part in parts), "Model")

    def pairs(
        self, parts: Collection[str], layers: int, *, stack: str = "encoder", head: str = "", base: str = ""
    ) -> list[Pair]:
        """Every tensor of a model with these parts, the templates filled in."""

        def fill(pair: Pair, layer: int = 0) -> Pair:
            ours, theirs = (name.format(stack=stack, layer=layer, head=head, base=base) for name in pair[:2])
            return Pair(ours, theirs, pair.dims)

        return [
            *map(fill, self.embeddings),
            *(fill(pair, layer) for layer in range(layers) for pair in self.layer),
            *(fill(pair) for part in self.parts if part in parts for pair in self.parts[part]),
        ]


def _module(ours: str, theirs: str, dims: str) -> tuple[Pair, Pair]:
    """Weight and bias, which has the weight's first dimension."""
    return Pair(f"{ours}.weight", f"{theirs}.weight", dims), Pair(f"{ours}.bias", f"{theirs}.bias", dims[0])


_OURS = "{stack}.sentence_encoder"
_OUR_LAYER = f"{_OURS}.layers.{{layer}}"
_THEIR_LAYER = "{base}encoder.layer.{layer}"
_HEAD = "classification_heads.{head}"

_ROBERTA_EMBEDDINGS = (
    Pair(f"{_OURS}.embed_tokens.weight", f"{{base}}{WORDS}", "VE"),
    Pair(f"{_OURS}.embed_positions.weight", f"{{base}}{POSITIONS}", "PE"),
    *_module(f"{_OURS}.layernorm_embedding", "{base}embeddings.LayerNorm", "E"),
)
_EMBEDDINGS = (
    *_ROBERTA_EMBEDDINGS,
    Pair(f"{_OURS}.embed_segments.weight", f"{{base}}{TOKEN_TYPES}", "2E"),
)
_LAYER = (
    *_module(f"{_OUR_LAYER}.self_attn.q_proj", f"{_THEIR_LAYER}.attention.self.query", "HH"),
    *_module(f"{_OUR_LAYER}.self_attn.k_proj", f"{_THEIR_LAYER}.attention.self.key", "HH"),
    *_module(f"{_OUR_LAYER}.self_attn.v_proj", f"{_THEIR_LAYER}.attention.self.value", "HH"),
    *_module(f"{_OUR_LAYER}.self_attn.out_proj", f"{_THEIR_LAYER}.attention.output.dense", "HH"),
    *_module(f"{_OUR_LAYER}.self_attn_layer_norm", f"{_THEIR_LAYER}.attention.output.LayerNorm", "H"),
    *_module(f"{_OUR_LAYER}.fc1", f"{_THEIR_LAYER}.intermediate.dense", "FH"),
    *_module(f"{_OUR_LAYER}.fc2", f"{_THEIR_LAYER}.output.dense", "HF"),
    *_module(f"{_OUR_LAYER}.final_layer_norm", f"{_THEIR_LAYER}.output.LayerNorm", "H"),
)
_QUESTION_ANSWERING = _module(f"{QUESTION_ANSWERING_HEAD}.out_proj", "qa_outputs", "2H")
_DENSE_CLASSIFIER = (
    *_module(f"{_HEAD}.dense", "classifier.dense", "HH"),
    *_module(f"{_HEAD}.out_proj", "classifier.out_proj", "CH"),
)


def _lm_head(dense: str, layer_norm: str, bias: str) -> tuple[Pair, ...]:
    return (
        *_module("{stack}.lm_head.dense", dense, "EH"),
        *_module("{stack}.lm_head.layer_norm", layer_norm, "E"),
        Pair("{stack}.lm_head.bias", bias, "V"),
    )


BERT = Family(
    name="bert",
    embeddings=_EMBEDDINGS,
    layer=_LAYER,
    parts={
        "pooler": _module(f"{_HEAD}.dense", "{base}pooler.dense", "HH"),
        "next_sentence": _module(f"{_HEAD}.out_proj", "cls.seq_relationship", "2H"),
        "masked_lm": _lm_head(
            "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
        ),
        "untied": (Pair("{stack}.lm_head.weight", "cls.predictions.decoder.weight", "VE"),),
        "classification": _module(f"{_HEAD}.out_proj", "classifier", "CH"),
        "question_answering": _QUESTION_ANSWERING,
    },
    copies={"cls.predictions.bias": "cls.predictions.decoder.bias"},
)

ELECTRA = Family(
    name="electra",
    embeddings=_EMBEDDINGS,
    layer=_LAYER,
    parts={
        "projection": _module(f"{_OURS}.embed_project", "{base}embeddings_project", "HE"),
        "masked_lm": _lm_head(
            "generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"
        ),
        "untied": (Pair("{stack}.lm_head.weight", "generator_lm_head.weight", "VE"),),
        "discriminator": (
            *_module(f"{ELECTRA_HEAD}.dense", "discriminator_predictions.dense", "HH"),
            *_module(f"{ELECTRA_HEAD}.out_proj", "discriminator_predictions.dense_prediction", "1H"),
        ),
        "classification": _DENSE_CLASSIFIER,
        "question_answering": _QUESTION_ANSWERING,
    },
)

ROBERTA = Family(
    name="roberta",
    embeddings=_ROBERTA_EMBEDDINGS,
    layer=_LAYER,
    parts={
        "masked_lm": _lm_head("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        "untied": (Pair("{stack}.lm_head.weight", "lm_head.decoder.weight", "VE"),),
        "classification": _DENSE_CLASSIFIER,
        "question_answering": _QUESTION_ANSWERING,
    },
    # fairseq's RoBERTa has no pooler: a head without a classifier does not load.
    ignored=("embeddings.position_ids", "embeddings.token_type_ids", "pooler."),
    copies={"lm_head.bias": "lm_head.decoder.bias"},
)


FAMILIES = {family.name: family for family in (BERT, ELECTRA, ROBERTA)}
