"""Options of the masked-LM criterions.

fairseq reads the fields' types at run time: no ``from __future__ import annotations`` here, and built-in types only
(spawned workers unpickle the options before they import this package).
"""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.criterions.masked_lm import MaskedLmConfig


@dataclass
class MaskedLmTrueNegConfig(MaskedLmConfig):
    """Options of the criterion; every field is a flag of fairseq-train and a key of hydra's ``criterion`` group."""

    preset: Optional[str] = field(
        default=None,
        metadata={
            "help": "options that are set together: 'recommended', what has won so far (docs/results/novels.md): "
            "--target-smoothing synonyms --synonym-source inflected"
        },
    )
    hc_weight: float = field(
        default=0.0,
        metadata={
            "help": "hard correction (Eq. 2): share of the loss that is dropped where the prediction is a synonym of "
            "the original word, in [0, 1]"
        },
    )
    hc_denominator: str = field(
        default="masked",
        metadata={
            "help": "what the loss is averaged over: 'masked' (all masked positions) or 'kept' (those not corrected; "
            "needs --hc-weight 1)"
        },
    )
    hc_detector: str = field(
        default="table",
        metadata={
            "help": "which mistakes are false negatives: 'table' (pairs of the synonym table); or those that people "
            "would accept, judged by 'embedding' (cosine of the input embeddings) or 'context' (cosine of the states "
            "in the sentence, mean over the layers), joined by '+'; with table among them only its pairs are judged: "
            "table+embedding"
        },
    )
    hc_threshold: float = field(
        default=0.5,
        metadata={"help": "smallest probability of acceptance that a detector other than table corrects, in [0, 1]"},
    )
    hc_graded: bool = field(
        default=False,
        metadata={"help": "drop of a corrected position's loss the probability of acceptance in place of everything"},
    )
    hc_acceptance_model: Optional[str] = field(
        default=None,
        metadata={
            "help": "JSON of 'truneg synonyms fit' that makes a probability of what the detector sees (default: the "
            "package's, fitted on SWORDS)"
        },
    )
    sr_word_weight: float = field(
        default=0.0,
        metadata={
            "help": "lambda of word-level soft regularization (Eq. 3): 1 - cosine of the embeddings of prediction and "
            "original word"
        },
    )
    sr_sent_weight: float = field(
        default=0.0,
        metadata={
            "help": "lambda of sentence-level soft regularization: KL divergence of the encoder's states for the "
            "sentence with the predictions filled in from those for the original sentence (two more encoder passes, "
            "one in ELECTRA)"
        },
    )
    sr_sent_gold_gradient: bool = field(
        default=False,
        metadata={"help": "let the sentence-level divergence train through the original sentence's states too"},
    )
    softmax_temperature: float = field(
        default=1.0, metadata={"help": "softmax temperature of the trained cross-entropy (footnote 11)"}
    )
    target_smoothing: str = field(
        default="none",
        metadata={
            "help": "soft targets: give a share of the target to other words: 'uniform' (all of the vocabulary: label "
            "smoothing), 'synonyms' (those of the table) or 'self' (what the model itself predicts where it reads the "
            "unmasked sentence: one more encoder pass)"
        },
    )
    target_smoothing_weight: float = field(
        default=0.1, metadata={"help": "the share of the target that --target-smoothing takes, in [0, 1]"}
    )
    target_smoothing_shape: str = field(
        default="cosine",
        metadata={
            "help": "of --target-smoothing synonyms: 'cosine' (by exp(cosine of the embeddings / temperature)) or "
            "'uniform' (all alike)"
        },
    )
    target_smoothing_temperature: float = field(
        default=0.1, metadata={"help": "of --target-smoothing-shape cosine: the temperature"}
    )
    target_smoothing_threshold: float = field(
        default=0.3, metadata={"help": "of --target-smoothing-shape cosine: smallest cosine of a synonym, in [-1, 1]"}
    )
    target_smoothing_drop_gold: bool = field(
        default=False, metadata={"help": "of --target-smoothing self: leave the original word out and renormalise"}
    )
    synonym_table: Optional[str] = field(
        default=None,
        metadata={
            "help": "synonym table (npz) of this dictionary; default: synonyms.npz beside the data, built there when "
            "missing"
        },
    )
    synonym_source: Optional[str] = field(
        default=None,
        metadata={
            "help": "lexicon of the synonym table (default: any that is beside the data, else wordnet): wordnet, "
            "inflected, wn, embeddings, tsv, or an expression such as wordnet+embeddings-antonyms; a "
            "table that is given must be from it. Or model: neighbours in the model's own embeddings, refreshed while "
            "it trains"
        },
    )
    synonym_vectors: Optional[str] = field(
        default=None,
        metadata={"help": "word vectors for embeddings: GloVe text, word2vec text or word2vec binary, also .gz"},
    )
    synonym_neighbours: Optional[int] = field(
        default=None, metadata={"help": "how many nearest words embeddings lists (default: 10)"}
    )
    synonym_threshold: Optional[float] = field(
        default=None, metadata={"help": "smallest cosine of a neighbour in embeddings, in [-1, 1] (default: none)"}
    )
    synonym_tsv: Optional[str] = field(
        default=None, metadata={"help": "list for tsv: UTF-8 lines 'word<TAB>synonym,synonym'"}
    )
    synonym_wn: Optional[str] = field(
        default=None, metadata={"help": "of wn: an installed wordnet of the package wn, such as oewn:2024"}
    )
    synonym_exclude: Optional[str] = field(
        default=None,
        metadata={"help": "list of pairs that are not synonyms in any source, in the format of --synonym-tsv"},
    )
    tokenization: str = field(
        default="auto",
        metadata={
            "help": "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2 or words"
        },
    )
    gpt2_encoder_json: Optional[str] = field(
        default=None,
        metadata={
            "help": "GPT-2's encoder.json, for dictionaries of GPT-2's numbers; default: encoder.json beside the data"
        },
    )
    model_synonyms_every: int = field(
        default=1000,
        metadata={
            "help": "for --synonym-source model: updates between two refreshes of the whole vocabulary; each update "
            "computes its share"
        },
    )
    model_synonyms_warmup: int = field(
        default=10000, metadata={"help": "for --synonym-source model: the first update that computes neighbours"}
    )
    model_synonyms_neighbours: int = field(
        default=10, metadata={"help": "for --synonym-source model: nearest words per word"}
    )
    model_synonyms_threshold: float = field(
        default=0.6, metadata={"help": "for --synonym-source model: smallest cosine of a neighbour, in (0, 1]"}
    )


def _preset(name: str, default: float) -> Any:
    """The field of the same name with another default."""
    return field(default=default, metadata=dict(MaskedLmTrueNegConfig.__dataclass_fields__[name].metadata))


@dataclass
class MaskedLmHardCorrectionConfig(MaskedLmTrueNegConfig):
    """``masked_lm_hc``: hard correction."""

    hc_weight: float = _preset("hc_weight", 1.0)


@dataclass
class MaskedLmWordRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_word``: soft regularization by cosine."""

    sr_word_weight: float = _preset("sr_word_weight", 1.0)


@dataclass
class MaskedLmSentenceRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_sent``: soft regularization by KL divergence."""

    sr_sent_weight: float = _preset("sr_sent_weight", 1.0)


@dataclass
class ElectraConfig(MaskedLmTrueNegConfig):
    """``electra``: the true-negative objectives on the generator (Section 5: sentences on the discriminator)."""

    discriminator_weight: float = field(
        default=50.0, metadata={"help": "weight of the discriminator loss; the generator loss has weight 1"}
    )
    discriminator_false_negatives: str = field(
        default="keep",
        metadata={
            "help": "a sampled synonym of the original word is for the discriminator: 'keep' a replaced token like any "
            "other, 'ignore' no part of the loss, 'relabel' an original token, 'soft' replaced with 1 - the "
            "probability of acceptance (--hc-detector says which and how)"
        },
    )
