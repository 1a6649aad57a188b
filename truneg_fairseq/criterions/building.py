"""Makes the objective of a criterion's options: the dictionary's words, the synonym table, the detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..building import MODEL_SOURCE, Pairs, load_pairs, make_objective, uses_table
from ..data.tokenizer import vocabulary_of
from ..errors import TrueNegError
from ..objectives import ObjectiveSettings, TrueNegativeObjective
from ..vocabulary import MASK_SYMBOL, Vocabulary
from .config import MaskedLmTrueNegConfig
from .model_synonyms import ModelSynonyms
from .options import check_options


class Built(NamedTuple):
    """What the options make."""

    objective: TrueNegativeObjective  # the mathematics
    vocabulary: Vocabulary | None  # the dictionary's words, None where nothing looks at words
    pairs: Pairs | ModelSynonyms | None  # the synonym table or the synonyms of the model, None where none are in use


def build_objective(cfg: MaskedLmTrueNegConfig, task: Any, padding: int) -> Built:
    """Checks the options and loads, or builds, what they need.

    Args:
        cfg: the options.
        task: a masked-LM task of fairseq.
        padding: the id of padding.
    """
    settings = ObjectiveSettings.of(cfg)
    check_options(cfg, settings)
    with_table = uses_table(cfg, settings)
    if not (with_table or settings.finds_false_negatives):
        return Built(TrueNegativeObjective(settings, padding), None, None)
    vocabulary, data = _vocabulary(cfg, task), Path(task.cfg.data.split(":")[0])
    pairs: Pairs | ModelSynonyms | None = None
    synonyms = None
    if with_table and cfg.synonym_source == MODEL_SOURCE:
        pairs = ModelSynonyms(vocabulary, cfg)
    elif with_table:
        pairs, synonyms = load_pairs(cfg, settings, vocabulary, data)
    objective = make_objective(
        cfg, settings, padding=padding, vocabulary=vocabulary, data=data, pairs=pairs, synonyms=synonyms
    )
    return Built(objective, vocabulary, pairs)


def _vocabulary(cfg: MaskedLmTrueNegConfig, task: Any) -> Vocabulary:
    dictionary = task.source_dictionary
    if dictionary is None or MASK_SYMBOL not in dictionary:
        name = getattr(task.cfg, "_name", None) or type(task).__name__
        raise TrueNegError(
            f"--task {name}: its dictionary has no {MASK_SYMBOL} symbol; expected a masked-LM task (masked_lm)"
        )
    encoder = Path(cfg.gpt2_encoder_json) if cfg.gpt2_encoder_json else None
    data = Path(task.cfg.data.split(":")[0])
    return vocabulary_of(dictionary.symbols, data, tokenization=cfg.tokenization, gpt2_encoder_json=encoder)
