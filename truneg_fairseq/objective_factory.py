"""Makes the objective that a training's options describe, whatever library trains: words, synonym table, detector.

fairseq reads the types of the options' fields: no ``from __future__ import annotations`` here.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional, Protocol

import torch
from torch import Tensor, nn

from .corpus_counts import CorpusCounts, counts_beside
from .errors import TrueNegError
from .objectives import (
    CorpusTargets,
    Detector,
    Exclusions,
    MaskedPredictions,
    ObjectiveSettings,
    SynonymLists,
    TrueNegativeObjective,
    pair_keys,
)
from .objectives.acceptance import model_of
from .objectives.settings import TABLE
from .objectives.soft_targets import cosine_scores, rank_scores
from .options import flag_of, option
from .synonyms import SynonymTable
from .synonyms.build import provide_exclusions, provide_table
from .synonyms.wordnet import eligible_words
from .vocabulary import TOKENIZATIONS, Vocabulary

logger = logging.getLogger(__name__)

_INFLECTED_SYNONYMS = {"target_smoothing": "synonyms", "synonym_source": "inflected"}
PRESETS: dict[str, dict[str, str]] = {"inflected-synonyms": _INFLECTED_SYNONYMS, "recommended": _INFLECTED_SYNONYMS}
"""Options that --preset sets together (evidence: docs/results/novels.md). ``recommended`` is an old name."""

MODEL_SOURCE = "model"
"""The source whose synonyms change while the model trains."""


@dataclass(kw_only=True)
class SynonymOptions:
    """Where synonyms and probabilities of acceptance are from."""

    preset: Optional[str] = option(
        None,
        "options that are set together: 'inflected-synonyms', which teaches a table (docs/results/novels.md): "
        "--target-smoothing synonyms --synonym-source inflected",
        choices=tuple(PRESETS),
    )
    hc_acceptance_model: Optional[str] = option(
        None,
        "JSON of 'truneg synonyms judge --fit' that makes a probability of what the detector sees (default: the "
        "package's, fitted on SWORDS)",
    )
    synonym_table: Optional[str] = option(
        None,
        "synonym table (npz) of this dictionary; default: synonyms.npz beside the data, built there when missing (with "
        "transformers: in the cache folder)",
    )
    synonym_source: Optional[str] = option(
        None,
        "lexicon of the synonym table (default: any that is beside the data, else wordnet): wordnet, inflected, or an "
        "expression such as wordnet&inflected; 'truneg synonyms build' makes tables of other sources; a table that is "
        "given must be from it. With fairseq also model: neighbours in the model's own embeddings, refreshed while it "
        "trains",
    )
    alternatives: Optional[str] = option(
        None,
        "counts for --target-smoothing-corpus, an npz that 'truneg data counts' has made of a text in this "
        "dictionary's numbers (default: corpus_counts.npz beside the data)",
    )
    teacher: Optional[str] = option(
        None,
        "the model of --target-smoothing-teacher: a fairseq checkpoint of a masked LM with the same dictionary (one of "
        "Hugging Face's is made by 'truneg convert'); with transformers the folder or name of a masked LM with "
        "the same tokenizer",
    )
    tokenization: str = option(
        "auto",
        "how the dictionary marks whole words: auto (detected), wordpiece, sentencepiece, gpt2, subword-nmt or words",
        choices=("auto", *TOKENIZATIONS),
    )


def with_preset(options: Any) -> Any:
    """The options with those of their preset; themselves where they have none."""
    preset = getattr(options, "preset", None)
    if preset not in PRESETS:
        return options
    options = copy.deepcopy(options)
    for name, value in PRESETS[preset].items():
        given = getattr(options, name, None)
        if given not in (None, "none", value):
            raise TrueNegError(
                f"{flag_of(name)} {given}: excludes --preset {preset}, which is {flag_of(name)} {value}; leave one of "
                "them out"
            )
        setattr(options, name, value)
    return options


@dataclass(kw_only=True)
class ObjectiveOptions(ObjectiveSettings, SynonymOptions):
    """What is minimised, and where the synonyms are from."""


def described(*options: Any) -> str:
    """What dataclasses of options ask for besides their defaults, as flags."""
    changed = [
        f"{flag_of(each.name)} {getattr(part, each.name)}"
        for part in options
        for each in fields(part)
        if getattr(part, each.name) != each.default
    ]
    return " ".join(changed) or "plain, without true negatives"


class HasKeys(Protocol):
    """Synonyms in use: a table's, or the model's own."""

    keys: Tensor


class Pairs(nn.Module):
    """A synonym table and its keys; the keys are a buffer, which follows its module and stays an integer in fp16."""

    keys: Tensor

    def __init__(self, table: SynonymTable) -> None:
        super().__init__()
        self.table = table
        self.register_buffer("keys", pair_keys(*pairs_of(table)), persistent=False)


def pairs_of(table: SynonymTable) -> tuple[Tensor, Tensor]:
    """The ids of the gold tokens and of their synonyms, each int64, shape (P,)."""
    return torch.from_numpy(table.gold).long(), torch.from_numpy(table.synonym).long()


def uses_table(options: Any, settings: ObjectiveSettings) -> bool:
    """Whether a synonym table is in use: the objective needs it, or it was given, to measure with."""
    return settings.needs_table or options.synonym_table is not None


def looks_at_words(options: Any, settings: ObjectiveSettings) -> bool:
    """Whether the objective has to know what the tokens mean."""
    return uses_table(options, settings) or settings.finds_false_negatives


def load_pairs(options: Any, settings: ObjectiveSettings, vocabulary: Vocabulary, data: Path) -> Pairs | None:
    """Loads the synonym table, or builds it in the folder ``data``; None where none is in use."""
    if not uses_table(options, settings):
        return None
    path = Path(options.synonym_table) if options.synonym_table else None
    return Pairs(provide_table(vocabulary, data, path, options.synonym_source))


def load_corpus_targets(
    options: Any, settings: ObjectiveSettings, symbols: Sequence[str], data: Path
) -> CorpusTargets | None:
    """The counts of the dictionary with these symbols, by default in the folder ``data``; None where none are used."""
    if not settings.target_smoothing_corpus:
        return None
    path = Path(options.alternatives) if options.alternatives else counts_beside(data)
    counts = CorpusCounts.load(path, symbols)
    logger.info("corpus counts %s: %s; discount %g", path, counts.summary, counts.discount)
    pairs, triples = (
        (torch.from_numpy(counted.keys), torch.from_numpy(counted.counts)) for counted in (counts.pairs, counts.triples)
    )
    return CorpusTargets(torch.from_numpy(counts.words), pairs, triples, discount=counts.discount, most=counts.most)


def teacher_path(options: Any) -> Path:
    """The model of ``--target-smoothing-teacher``."""
    if options.teacher is None:
        raise TrueNegError(
            f"--target-smoothing-teacher {options.target_smoothing_teacher}: found no --teacher; expected the model "
            "that teaches"
        )
    logger.info("teacher %s", options.teacher)
    return Path(options.teacher)


def make_objective(
    options: Any,
    settings: ObjectiveSettings,
    *,
    padding: int,
    vocabulary: Vocabulary,
    data: Path,
    pairs: HasKeys | None,
    corpus: CorpusTargets | None = None,
    teacher: Callable[[MaskedPredictions], Tensor] | None = None,
) -> TrueNegativeObjective:
    """The objective of options that look at words.

    In the folder ``data`` are the pairs that a detector must never accept; ``pairs`` is None where no synonyms are in
    use.
    """
    synonyms = None
    if settings.smoothing == "synonyms":
        if not isinstance(pairs, Pairs):
            raise TrueNegError(
                f"--target-smoothing synonyms: excludes --synonym-source {options.synonym_source}; expected a table "
                "from a lexicon (wordnet, or another source)"
            )
        synonyms = SynonymLists(*pairs_of(pairs.table), len(vocabulary), _scores_of(pairs.table, settings))
    continues, unfinished = torch.from_numpy(vocabulary.continues), vocabulary.unfinished
    detector = _detector(options, settings, vocabulary, data, pairs)
    objective = TrueNegativeObjective(
        settings,
        padding,
        continues,
        detector,
        synonyms,
        corpus=corpus,
        teacher=teacher,
        unfinished=None if unfinished is None else torch.from_numpy(unfinished),
    )
    if isinstance(pairs, Pairs):
        objective.add_module("pairs", pairs)  # the detector reads its keys on the device of the objective
    return objective


def _scores_of(table: SynonymTable, settings: ObjectiveSettings) -> Tensor | None:
    """The scores of a table's pairs, fp32, shape (P,), where its cosines give them; None for the other shapes."""
    shape = settings.target_smoothing_shape
    if shape not in ("vectors", "rank"):
        return None
    if table.cosine is None:
        raise TrueNegError(
            f"--target-smoothing-shape {shape}: found a table without cosines; expected one that 'truneg synonyms "
            "build --vectors FILE' has made (--synonym-table)"
        )
    cosine = torch.from_numpy(table.cosine)
    if shape == "rank":
        return rank_scores(pairs_of(table)[0], cosine)
    return cosine_scores(
        cosine, temperature=settings.target_smoothing_temperature, threshold=settings.target_smoothing_threshold
    )


def _detector(
    options: Any, settings: ObjectiveSettings, vocabulary: Vocabulary, data: Path, pairs: HasKeys | None
) -> Detector | None:
    # A table that nothing needs is there to measure with.
    measured = pairs is not None and not settings.needs_table and not settings.scores
    if not (settings.finds_false_negatives or measured):
        return None
    keys = None if pairs is None else lambda: pairs.keys
    if not settings.scores:
        return Detector(settings.features, settings.hc_threshold, None, keys)
    model = model_of(settings.features, Path(options.hc_acceptance_model) if options.hc_acceptance_model else None)
    words = torch.from_numpy(eligible_words(vocabulary))
    exclusions = Exclusions(words, *pairs_of(provide_exclusions(vocabulary, data)))
    table = keys if TABLE in settings.features else None
    return Detector(settings.features, settings.hc_threshold, model, table, exclusions)
