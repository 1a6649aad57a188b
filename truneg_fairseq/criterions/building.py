"""Makes the objective of a criterion's options: the dictionary's words, the synonym table, the detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import TrueNegError
from ..objectives import Detector, Exclusions, ObjectiveSettings, SynonymLists, TrueNegativeObjective, pair_keys
from ..objectives.acceptance import AcceptanceModel, packaged_model
from ..objectives.settings import TABLE
from ..synonyms import SynonymTable
from ..synonyms.no_excuse import eligible_words
from ..synonyms.provision import provide_no_excuses, provide_table
from ..vocabulary import MASK_SYMBOL, Vocabulary, gpt2_encoder_beside
from .config import MaskedLmTrueNegConfig
from .model_synonyms import ModelSynonyms
from .options import MODEL_SOURCE, check_options, lexicon_settings, uses_table


class Pairs(nn.Module):
    """The keys of a synonym table; a buffer, which follows the criterion to its device and stays an integer in fp16."""

    keys: Tensor

    def __init__(self, table: SynonymTable) -> None:
        super().__init__()
        gold, synonym = pairs_of(table)
        self.register_buffer("keys", pair_keys(gold, synonym), persistent=False)


class Built(NamedTuple):
    """What the options make.

    Attributes:
        objective: the mathematics.
        vocabulary: the dictionary's words, None where nothing looks at words.
        pairs: the synonym table or the synonyms of the model, None where none are in use.
    """

    objective: TrueNegativeObjective
    vocabulary: Vocabulary | None
    pairs: Pairs | ModelSynonyms | None


def build_objective(cfg: MaskedLmTrueNegConfig, task: Any, padding: int) -> Built:
    """Checks the options and loads, or builds, what they need.

    Args:
        cfg: the options.
        task: a masked-LM task of fairseq.
        padding: the id of padding.

    Raises:
        TrueNegError: options that exclude each other; a task without masks; see
            :func:`~truneg_fairseq.synonyms.provision.provide_table`.
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
        path = Path(cfg.synonym_table) if cfg.synonym_table else None
        table = provide_table(vocabulary, data, path, cfg.synonym_source, lexicon_settings(cfg))
        pairs = Pairs(table)
        if settings.smoothing == "synonyms":
            synonyms = SynonymLists(*pairs_of(table), len(vocabulary))
    objective = TrueNegativeObjective(
        settings,
        padding,
        torch.from_numpy(vocabulary.continues),
        _detector(cfg, settings, vocabulary, data, pairs),
        synonyms,
    )
    return Built(objective, vocabulary, pairs)


def pairs_of(table: SynonymTable) -> tuple[Tensor, Tensor]:
    """The ids of the gold tokens and of their synonyms, each int64, shape (P,)."""
    return torch.from_numpy(table.gold).long(), torch.from_numpy(table.synonym).long()


def _detector(
    cfg: MaskedLmTrueNegConfig,
    settings: ObjectiveSettings,
    vocabulary: Vocabulary,
    data: Path,
    pairs: Pairs | ModelSynonyms | None,
) -> Detector | None:
    keys = None if pairs is None else lambda: pairs.keys
    if not settings.scores:
        return Detector(settings.features, settings.hc_threshold, None, keys)
    if not settings.finds_false_negatives:
        return None
    if cfg.hc_acceptance_model is None:
        model = packaged_model(settings.features)
    else:
        model = AcceptanceModel.load(Path(cfg.hc_acceptance_model))
        if set(model.features) != settings.features:
            raise TrueNegError(
                f"--hc-acceptance-model {cfg.hc_acceptance_model}: is of {'+'.join(model.features)}, but --hc-detector "
                f"is {cfg.hc_detector}; expected the same; set the detector, or fit another model"
            )
    exclusions = Exclusions(
        torch.from_numpy(eligible_words(vocabulary)), *pairs_of(provide_no_excuses(vocabulary, data))
    )
    table_keys = keys if TABLE in settings.features else None
    return Detector(settings.features, settings.hc_threshold, model, table_keys, exclusions)


def _vocabulary(cfg: MaskedLmTrueNegConfig, task: Any) -> Vocabulary:
    dictionary = task.source_dictionary
    if dictionary is None or MASK_SYMBOL not in dictionary:
        name = getattr(task.cfg, "_name", None) or type(task).__name__
        raise TrueNegError(
            f"--task {name}: its dictionary has no {MASK_SYMBOL} symbol; expected a masked-LM task (masked_lm)"
        )
    encoder = Path(cfg.gpt2_encoder_json) if cfg.gpt2_encoder_json else None
    return Vocabulary.from_symbols(
        dictionary.symbols, cfg.tokenization, encoder or gpt2_encoder_beside(Path(task.cfg.data.split(":")[0]))
    )
