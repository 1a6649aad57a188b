"""Makes the objective of a training's options, whatever library trains: synonym table, detector, soft targets.

The options are any object with the attributes of :class:`~.objectives.settings.ObjectiveSettings`, ``synonym_table``,
``synonym_source``, ``synonym_vectors`` and so on for each of :data:`LEXICON_OPTIONS`, ``tokenization``,
``gpt2_encoder_json``, ``hc_acceptance_model`` and ``preset``.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from .errors import TrueNegError
from .objectives import Detector, Exclusions, ObjectiveSettings, SynonymLists, TrueNegativeObjective, pair_keys
from .objectives.acceptance import AcceptanceModel, packaged_model
from .objectives.settings import TABLE
from .synonyms import LexiconSettings, SynonymTable
from .synonyms.exclusions import eligible_words
from .synonyms.provision import provide_exclusions, provide_table
from .vocabulary import Vocabulary

PRESETS: dict[str, dict[str, str]] = {"recommended": {"target_smoothing": "synonyms", "synonym_source": "inflected"}}
"""Options that --preset sets together; docs/results/novels.md has the evidence for ``recommended``."""

LEXICON_OPTIONS = ("vectors", "neighbours", "threshold", "tsv", "wn", "exclude")
"""What the sources of synonyms are told; as options with ``synonym_`` before it."""
MODEL_SOURCE = "model"
"""The source whose synonyms change while the model trains."""
_FILES = ("vectors", "tsv", "exclude")


def names_model(source: str | None) -> bool:
    """Whether an expression of sources has :data:`MODEL_SOURCE`."""
    return MODEL_SOURCE in re.split(r"\W+", source or "")


def with_preset(options: Any) -> Any:
    """The options with those of their preset; themselves where they have none."""
    preset = getattr(options, "preset", None)
    if preset is None:
        return options
    if preset not in PRESETS:
        raise TrueNegError(f"--preset {preset}: expected {' or '.join(PRESETS)}")
    values = PRESETS[preset]
    for name, value in values.items():
        flag, given = f"--{name.replace('_', '-')}", getattr(options, name, None)
        if given not in (None, "none", value):
            raise TrueNegError(
                f"{flag} {given}: excludes --preset {preset}, which is {flag} {value}; leave one of them out"
            )
    if dataclasses.is_dataclass(options) and not isinstance(options, type):
        return dataclasses.replace(options, **values)
    options = copy.deepcopy(options)
    for name, value in values.items():
        setattr(options, name, value)
    return options


class HasKeys(Protocol):
    """Synonyms in use: a table's, or the model's own."""

    keys: Tensor


class Pairs(nn.Module):
    """A synonym table and its keys; the keys are a buffer, which follows its module and stays an integer in fp16."""

    keys: Tensor

    def __init__(self, table: SynonymTable) -> None:
        super().__init__()
        self.table = table
        gold, synonym = pairs_of(table)
        self.register_buffer("keys", pair_keys(gold, synonym), persistent=False)


def lexicon_settings(options: Any) -> LexiconSettings:
    """The settings of the sources of synonyms."""
    values = {name: getattr(options, f"synonym_{name}") for name in LEXICON_OPTIONS}
    files = {name: Path(values[name]) if values[name] else None for name in _FILES}
    return LexiconSettings(**{**values, **files}, flags="--synonym-")


def lexicon_flags(options: Any) -> tuple[tuple[str, Any], ...]:
    """The flags of the sources and what they are given, None for nothing."""
    return tuple((f"--synonym-{name}", getattr(options, f"synonym_{name}")) for name in LEXICON_OPTIONS)


def uses_table(options: Any, settings: ObjectiveSettings) -> bool:
    """Whether a synonym table is in use: the objective needs it, or it was given, to measure with."""
    return settings.needs_table or options.synonym_table is not None


def check_table_flags(options: Any, settings: ObjectiveSettings) -> None:
    """Refuses options of a table or of a detector that is not in use."""
    if options.hc_acceptance_model is not None and not settings.scores:
        raise TrueNegError(
            f"--hc-acceptance-model {options.hc_acceptance_model}: has no effect with --hc-detector "
            f"{options.hc_detector}; expected a detector that gives probabilities, such as table+embedding"
        )
    if TABLE not in settings.features and options.synonym_table is not None and not settings.needs_table:
        raise TrueNegError(
            f"--synonym-table {options.synonym_table}: has no effect with --hc-detector {options.hc_detector}; "
            f"expected table in it, as in table+{options.hc_detector}"
        )
    if uses_table(options, settings):
        return
    if settings.target_smoothing == "synonyms":  # with weight 0: the control of a series of weights
        return
    looks_at_words = settings.finds_false_negatives  # a detector that scores reads the dictionary's words
    for flag, given in (
        ("--synonym-source", options.synonym_source is not None),
        *((flag, value is not None) for flag, value in lexicon_flags(options)),
        ("--tokenization", options.tokenization != "auto" and not looks_at_words),
        ("--gpt2-encoder-json", options.gpt2_encoder_json is not None and not looks_at_words),
    ):
        if given:
            raise TrueNegError(
                f"{flag}: has no effect without a synonym table; expected --hc-weight > 0 with table in "
                "--hc-detector, --target-smoothing synonyms or --synonym-table"
            )


def load_pairs(
    options: Any, settings: ObjectiveSettings, vocabulary: Vocabulary, data: Path
) -> tuple[Pairs, SynonymLists | None]:
    """Loads or builds the synonym table.

    Args:
        options: see the module.
        settings: the objective's among them.
        vocabulary: the tokens.
        data: the folder for a table that is not given.
    """
    path = Path(options.synonym_table) if options.synonym_table else None
    table = provide_table(vocabulary, data, path, options.synonym_source, lexicon_settings(options))
    synonyms = SynonymLists(*pairs_of(table), len(vocabulary)) if settings.smoothing == "synonyms" else None
    return Pairs(table), synonyms


def make_objective(
    options: Any,
    settings: ObjectiveSettings,
    *,
    padding: int,
    vocabulary: Vocabulary,
    data: Path,
    pairs: HasKeys | None,
    synonyms: SynonymLists | None,
) -> TrueNegativeObjective:
    """The objective of options that look at words.

    Args:
        options: see the module.
        settings: the objective's among them.
        padding: the id of padding.
        vocabulary: the tokens.
        data: the folder for the pairs that no score excuses.
        pairs: the synonyms; None where none are in use.
        synonyms: the same as lists, for soft targets.
    """
    continues = torch.from_numpy(vocabulary.continues)
    detector = _detector(options, settings, vocabulary, data, pairs)
    return TrueNegativeObjective(settings, padding, continues, detector, synonyms)


def pairs_of(table: SynonymTable) -> tuple[Tensor, Tensor]:
    """The ids of the gold tokens and of their synonyms, each int64, shape (P,)."""
    return torch.from_numpy(table.gold).long(), torch.from_numpy(table.synonym).long()


def _detector(
    options: Any, settings: ObjectiveSettings, vocabulary: Vocabulary, data: Path, pairs: HasKeys | None
) -> Detector | None:
    keys = None if pairs is None else lambda: pairs.keys
    if not settings.scores:
        return Detector(settings.features, settings.hc_threshold, None, keys)
    if not settings.finds_false_negatives:
        return None
    if options.hc_acceptance_model is None:
        model = packaged_model(settings.features)
    else:
        model = AcceptanceModel.load(Path(options.hc_acceptance_model))
        if set(model.features) != settings.features:
            raise TrueNegError(
                f"--hc-acceptance-model {options.hc_acceptance_model}: is of {'+'.join(model.features)}, but "
                f"--hc-detector is {options.hc_detector}; expected the same; set the detector, or fit another model"
            )
    words = torch.from_numpy(eligible_words(vocabulary))
    exclusions = Exclusions(words, *pairs_of(provide_exclusions(vocabulary, data)))
    table = keys if TABLE in settings.features else None
    return Detector(settings.features, settings.hc_threshold, model, table, exclusions)
