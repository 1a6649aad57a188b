"""Options of the criterions; every field is a flag of fairseq-train and a key of hydra's ``criterion`` group.

fairseq reads the fields' types at run time: no ``from __future__ import annotations`` here, and built-in types only
(spawned workers unpickle the options before they import this package).
"""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.criterions.masked_lm import MaskedLmConfig
from omegaconf import II

from ..objective_factory import SynonymOptions
from ..objectives.settings import ElectraSettings, ObjectiveSettings
from ..options import option


@dataclass(kw_only=True)
class ModelSynonymsOptions:
    """How synonyms are computed from the model's own embeddings (``--synonym-source model``)."""

    model_synonyms_every: int = option(
        1000,
        "for --synonym-source model: updates between two refreshes of the whole vocabulary; each update computes its "
        "share",
        ge=1,
    )
    model_synonyms_warmup: int = option(
        10000, "for --synonym-source model: the first update that computes neighbours", ge=0
    )
    model_synonyms_threshold: float = option(
        0.6, "for --synonym-source model: smallest cosine of a neighbour, in (0, 1]", gt=0, le=1
    )


@dataclass(kw_only=True)
class MaskRateOptions:
    """A masking rate that falls over training."""

    final_mask_prob: Optional[float] = option(
        None,
        "masking rate at --max-update, to which it falls from --mask-prob in a straight line; validation has it from "
        "the start (default: the rate stays)",
        gt=0,
        lt=1,
    )
    max_update: int = II("optimization.max_update")


@dataclass
class MaskedLmTrueNegConfig(MaskedLmConfig, ObjectiveSettings, SynonymOptions, ModelSynonymsOptions, MaskRateOptions):
    """``masked_lm_true_neg``: any combination of the objectives."""


def _same(name: str, **changed: Any) -> Any:
    """The field of the same name; its default and its choices may be others."""
    declared = MaskedLmTrueNegConfig.__dataclass_fields__[name]
    default = changed.pop("default", declared.default)
    return field(default=default, metadata={**dict(declared.metadata.items()), **changed})


@dataclass
class MaskedLmHardCorrectionConfig(MaskedLmTrueNegConfig):
    """``masked_lm_hc``: hard correction."""

    hc_weight: float = _same("hc_weight", default=1.0)


@dataclass
class MaskedLmWordRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_word``: soft regularization by cosine."""

    sr_word_weight: float = _same("sr_word_weight", default=1.0)


@dataclass
class MaskedLmSentenceRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_sent``: soft regularization by KL divergence."""

    sr_sent_weight: float = _same("sr_sent_weight", default=1.0)


@dataclass
class ElectraConfig(MaskedLmTrueNegConfig, ElectraSettings):
    """``electra``: the true-negative objectives on the generator (Section 5: sentences on the discriminator)."""


@dataclass
class LabelSmoothedTrueNegConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """``label_smoothed_true_neg``: stock's options, and those of the objectives that need no masked words."""

    hc_weight: float = _same("hc_weight")
    sr_word_weight: float = _same("sr_word_weight")
    sr_word_form: str = _same("sr_word_form")
    loss_truncation: float = _same("loss_truncation")
    target_smoothing: str = _same("target_smoothing", choices=("none", "synonyms"))
    target_smoothing_weight: float = _same("target_smoothing_weight")
    target_smoothing_shape: str = _same("target_smoothing_shape", default="uniform")
    target_smoothing_temperature: float = _same("target_smoothing_temperature")
    target_smoothing_threshold: float = _same("target_smoothing_threshold")
    target_smoothing_corpus: float = _same("target_smoothing_corpus")
    synonym_table: Optional[str] = _same("synonym_table")
    synonym_source: Optional[str] = _same("synonym_source")
    alternatives: Optional[str] = _same("alternatives")
    tokenization: str = _same("tokenization")
