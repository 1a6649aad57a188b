"""What the options of the masked-LM criterions mean together: which exclude each other, and the settings they make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..objectives.settings import TABLE, ObjectiveSettings
from ..synonyms import LexiconSettings
from .config import MaskedLmTrueNegConfig

MODEL_SOURCE = "model"
"""The --synonym-source that has no lexicon."""


def lexicon_settings(cfg: MaskedLmTrueNegConfig) -> LexiconSettings:
    """The settings of the sources of synonyms."""
    return LexiconSettings(
        lang=cfg.synonym_lang,
        vectors=Path(cfg.synonym_vectors) if cfg.synonym_vectors else None,
        neighbours=cfg.synonym_neighbours,
        threshold=cfg.synonym_threshold,
        tsv=Path(cfg.synonym_tsv) if cfg.synonym_tsv else None,
        exclude=Path(cfg.synonym_exclude) if cfg.synonym_exclude else None,
        flags="--synonym-",
    )


def _lexicon_flags(cfg: MaskedLmTrueNegConfig) -> tuple[tuple[str, Any], ...]:
    names = ("lang", "vectors", "neighbours", "threshold", "tsv", "exclude")
    return tuple((f"--synonym-{name}", getattr(cfg, f"synonym_{name}")) for name in names)


def check_options(cfg: MaskedLmTrueNegConfig, settings: ObjectiveSettings) -> None:
    """Refuses values out of range and options that exclude each other.

    Args:
        cfg: the options.
        settings: the objective's among them.

    Raises:
        TrueNegError: naming the flag.
    """
    settings.check()
    if cfg.hc_acceptance_model is not None and not settings.scores:
        raise TrueNegError(
            f"--hc-acceptance-model {cfg.hc_acceptance_model}: has no effect with --hc-detector {cfg.hc_detector}; "
            "expected a detector that gives probabilities, such as table+embedding"
        )
    _check_table_flags(cfg, settings)
    _check_model_synonyms(cfg)
    if settings.smoothing == "synonyms" and cfg.synonym_source == MODEL_SOURCE:
        raise TrueNegError(
            f"--target-smoothing synonyms: excludes --synonym-source {MODEL_SOURCE}; expected a table from a lexicon "
            "(wordnet, or another source)"
        )


def uses_table(cfg: MaskedLmTrueNegConfig, settings: ObjectiveSettings) -> bool:
    """Whether a synonym table is in use: the objective needs it, or it was given, to measure with."""
    return settings.needs_table or cfg.synonym_table is not None


def _check_table_flags(cfg: MaskedLmTrueNegConfig, settings: ObjectiveSettings) -> None:
    if TABLE not in settings.features and cfg.synonym_table is not None and not settings.needs_table:
        raise TrueNegError(
            f"--synonym-table {cfg.synonym_table}: has no effect with --hc-detector {cfg.hc_detector}; expected table "
            f"in it, as in table+{cfg.hc_detector}"
        )
    if uses_table(cfg, settings):
        return
    looks_at_words = settings.finds_false_negatives  # a detector that scores reads the dictionary's words
    for flag, given in (
        ("--synonym-source", cfg.synonym_source is not None),
        *((flag, value is not None) for flag, value in _lexicon_flags(cfg)),
        ("--tokenization", cfg.tokenization != "auto" and not looks_at_words),
        ("--gpt2-encoder-json", cfg.gpt2_encoder_json is not None and not looks_at_words),
    ):
        if given:
            raise TrueNegError(
                f"{flag}: has no effect without a synonym table; expected --hc-weight > 0 with table in "
                "--hc-detector, --target-smoothing synonyms or --synonym-table"
            )


def _check_model_synonyms(cfg: MaskedLmTrueNegConfig) -> None:
    options = {
        f"--{name.replace('_', '-')}": (getattr(cfg, name), known.default)
        for name, known in MaskedLmTrueNegConfig.__dataclass_fields__.items()
        if name.startswith("model_synonyms_")
    }
    if cfg.synonym_source != MODEL_SOURCE and MODEL_SOURCE in re.split(r"\W+", cfg.synonym_source or ""):
        raise TrueNegError(
            f"--synonym-source {cfg.synonym_source}: while training, {MODEL_SOURCE} is a source alone; build a table "
            "of several sources with 'truneg synonyms build --checkpoint' and give it with --synonym-table"
        )
    if cfg.synonym_source != MODEL_SOURCE:
        for flag, (value, default) in options.items():
            if value != default:
                raise TrueNegError(f"{flag}: has no effect without --synonym-source {MODEL_SOURCE}; expected both")
        return
    if cfg.synonym_table is not None:
        raise TrueNegError(
            f"--synonym-table {cfg.synonym_table}: excludes --synonym-source {MODEL_SOURCE}, which computes its own; "
            "leave one of them out"
        )
    for flag, value in _lexicon_flags(cfg):
        if value is not None:
            raise TrueNegError(f"{flag} {value}: has no effect on --synonym-source {MODEL_SOURCE}; leave it out")
    for name, least in (("every", 1), ("warmup", 0), ("neighbours", 1)):
        flag = f"--model-synonyms-{name}"
        if options[flag][0] < least:
            raise TrueNegError(f"{flag}: found {options[flag][0]}, expected a number >= {least}")
    if not 0 < cfg.model_synonyms_threshold <= 1:
        raise TrueNegError(
            f"--model-synonyms-threshold: found {cfg.model_synonyms_threshold}, expected a number in (0, 1]"
        )
