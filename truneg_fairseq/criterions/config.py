"""Options of the criterions; every field is a flag of fairseq-train and a key of hydra's ``criterion`` group.

fairseq reads the fields' types at run time: no ``from __future__ import annotations`` here, and built-in types only
(spawned workers unpickle the options before they import this package).
"""

from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions.masked_lm import MaskedLmConfig

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


@dataclass
class MaskedLmTrueNegConfig(MaskedLmConfig, ObjectiveSettings, SynonymOptions, ModelSynonymsOptions):
    """``masked_lm_true_neg``: any combination of the objectives."""


def _with_default(name: str, default: float) -> Any:
    """The field of the same name with another default."""
    return field(default=default, metadata=MaskedLmTrueNegConfig.__dataclass_fields__[name].metadata)


@dataclass
class MaskedLmHardCorrectionConfig(MaskedLmTrueNegConfig):
    """``masked_lm_hc``: hard correction."""

    hc_weight: float = _with_default("hc_weight", 1.0)


@dataclass
class MaskedLmWordRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_word``: soft regularization by cosine."""

    sr_word_weight: float = _with_default("sr_word_weight", 1.0)


@dataclass
class MaskedLmSentenceRegularizationConfig(MaskedLmTrueNegConfig):
    """``masked_lm_sr_sent``: soft regularization by KL divergence."""

    sr_sent_weight: float = _with_default("sr_sent_weight", 1.0)


@dataclass
class ElectraConfig(MaskedLmTrueNegConfig, ElectraSettings):
    """``electra``: the true-negative objectives on the generator (Section 5: sentences on the discriminator)."""
