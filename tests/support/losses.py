"""TrueNegativeLoss with each of its options, for a small vocabulary: what a loss must keep wherever it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.corpus_counts import count_tokens
from truneg_fairseq.objectives import CorpusTargets, Detector, SynonymLists, TrueNegativeOptions, pair_keys
from truneg_fairseq.objectives.false_negatives import AcceptanceModel
from truneg_fairseq.vocabulary import WordBoundaries

WORDS, PAD, PIECES = 29, 0, (11, 12)  # ids; the last ones continue words
LOSSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "hc": {"hc_weight": 1.0},
    "embedding": {"hc_weight": 0.5, "hc_detector": "table+embedding", "hc_threshold": 0.0},
    "uniform": {"uniform_targets": 0.1},
    "synonyms": {"synonym_targets": 0.2, "synonym_shape": "uniform"},
    "cosine": {"synonym_targets": 0.2},
    "corpus": {"corpus_targets": 0.2},
    "nearest": {"nearest_targets": 0.2},
    "truncation": {"loss_truncation": 0.3},
    "temperature": {"softmax_temperature": 2.0},
    "sr_word": {"sr_word_weight": 1.0},
    "sr_expected": {"sr_word_weight": 1.0, "sr_word_form": "expected"},
    "several": {"hc_weight": 0.5, "uniform_targets": 0.1, "synonym_targets": 0.2, "nearest_targets": 0.1},
}
"""The options that need no model, by name."""
OF_A_MODEL: dict[str, dict[str, Any]] = {
    "sr_sent": {"sr_sent_weight": 2.0},
    "context": {"hc_weight": 1.0, "hc_detector": "embedding+context", "hc_threshold": 0.0},
}


def loss_of(name: str, **others: Any) -> TrueNegativeLoss:
    """The loss with the options of a name; every word has three synonyms, and a text was counted."""
    options = TrueNegativeOptions(**{**LOSSES, **OF_A_MODEL}[name])
    gold = torch.arange(4, WORDS).repeat_interleave(3)
    synonym = 4 + (gold - 4 + torch.tensor([1, 2, 5]).repeat(WORDS - 4)) % (WORDS - 4)
    keys, parts = pair_keys(gold, synonym), dict[str, Any]()
    if options.hc_weight:
        regression = AcceptanceModel(dict.fromkeys(options.features, 1.0), -0.5)
        judged: dict[str, Any] = {}
        if options.hc_detector != "table":
            judged = {"regression": regression, "eligible": torch.ones(WORDS, dtype=torch.bool), "blocked": keys[-1:]}
        parts["detector"] = Detector(options.features, options.hc_threshold, keys, **judged)
    if options.synonym_targets:
        parts["synonyms"] = SynonymLists(gold, synonym, WORDS)
    if options.corpus_targets:
        text = np.random.default_rng(1).integers(4, WORDS, 400)
        counts = count_tokens([text], [str(word) for word in range(WORDS)], discount=0.6, most=8)
        pairs, triples = (
            (torch.from_numpy(part.keys), torch.from_numpy(part.counts)) for part in (counts.pairs, counts.triples)
        )
        parts["corpus"] = CorpusTargets(torch.from_numpy(counts.words), pairs, triples, discount=0.6, most=8)
    if options.hc_weight or options.synonym_targets:
        continues = torch.zeros(WORDS, dtype=torch.bool)
        continues[list(PIECES)] = True
        parts["boundaries"] = WordBoundaries(continues)
    return TrueNegativeLoss(options, padding=PAD, **parts, **others)
