"""What the options of the masked-LM criterions mean together: which exclude each other, and the settings they make."""

from __future__ import annotations

from ..building import MODEL_SOURCE, check_table_flags, lexicon_flags, names_model
from ..errors import TrueNegError
from ..objectives.settings import ObjectiveSettings
from .config import MaskedLmTrueNegConfig


def check_options(cfg: MaskedLmTrueNegConfig, settings: ObjectiveSettings) -> None:
    """Refuses values out of range and options that exclude each other.

    Args:
        cfg: the options.
        settings: the objective's among them.
    """
    settings.check()
    check_table_flags(cfg, settings)
    _check_model_synonyms(cfg)
    if settings.smoothing == "synonyms" and cfg.synonym_source == MODEL_SOURCE:
        raise TrueNegError(
            f"--target-smoothing synonyms: excludes --synonym-source {MODEL_SOURCE}; expected a table from a lexicon "
            "(wordnet, or another source)"
        )


def _check_model_synonyms(cfg: MaskedLmTrueNegConfig) -> None:
    options = {
        f"--{name.replace('_', '-')}": (getattr(cfg, name), known.default)
        for name, known in MaskedLmTrueNegConfig.__dataclass_fields__.items()
        if name.startswith("model_synonyms_")
    }
    if cfg.synonym_source != MODEL_SOURCE and names_model(cfg.synonym_source):
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
    for flag, value in lexicon_flags(cfg):
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
