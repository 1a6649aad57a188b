"""TrueNegativeLoss with each of its options, for a small vocabulary: what a loss must keep wherever it is used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.corpus_counts import count_tokens
from truneg_fairseq.objectives import CorpusTargets, Setting, TrueNegativeOptions
from truneg_fairseq.synonyms import SynonymTable
from truneg_fairseq.vocabulary import Vocabulary

WORDS, PAD, PIECES = 29, 0, (11, 12)  # ids; the last ones continue words
LOSSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "hc": {"hc_weight": 1.0},
    "embedding": {"hc_weight": 0.5, "hc_detector": "table+embedding", "hc_threshold": 0.0},
    "uniform": {"soft_targets": "uniform=0.1"},
    "synonyms": {"soft_targets": "table:flat=0.2"},
    "cosine": {"soft_targets": "table=0.2"},
    "corpus": {"soft_targets": "corpus=0.2..0.1"},
    "embeddings": {"soft_targets": "embedding=0.2"},
    "truncation": {"loss_truncation": 0.3},
    "temperature": {"softmax_temperature": 2.0},
    "sr_word": {"sr_word_weight": 1.0},
    "sr_expected": {"sr_word_weight": 1.0, "sr_word_form": "expected"},
    "several": {"hc_weight": 0.5, "soft_targets": "uniform=0.1,table=0.2,embedding=0.1"},
}
"""The options that need no model, by name."""
OF_A_MODEL: dict[str, dict[str, Any]] = {
    "sr_sent": {"sr_sent_weight": 2.0},
    "context": {"hc_weight": 1.0, "hc_detector": "embedding+context", "hc_threshold": 0.0},
}


def vocabulary_of(words: int = WORDS, pieces: tuple[int, ...] = PIECES) -> Vocabulary:
    """Words of letters, and pieces that continue them."""
    names = [f"{chr(97 + word // 26)}{chr(97 + word % 26)}x" for word in range(words)]
    continues = np.isin(np.arange(words), pieces)
    return Vocabulary(tuple(names), tuple(names), "words", tuple(names), continues)


def table_of_pairs(pairs: Iterable[tuple[int, int]], vocabulary: Vocabulary, **facts: Any) -> SynonymTable:
    """The synonym table of pairs of ids (gold, synonym)."""
    gold, synonym = np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2).T.copy()
    facts |= {"fingerprint": vocabulary.fingerprint, "tokenization": vocabulary.tokenization}
    return SynonymTable(gold=gold, synonym=synonym, vocabulary_size=len(vocabulary), source="test", **facts)


def setting_of(
    options: TrueNegativeOptions, table: Any, blocked: Any = (), vocabulary: Any = None, padding: int = PAD
) -> Setting:
    """What a training knows, with pairs (gold, synonym) as its table, and those that no regression may accept."""
    vocabulary = vocabulary or vocabulary_of()
    setting = Setting(options=options, padding=padding, folder=Path(), vocabulary=vocabulary)
    for name, pairs in (("table", table), ("exclusions", blocked)):
        vars(setting)[name] = table_of_pairs(pairs, vocabulary)
    return setting


def loss_of(name: str, **others: Any) -> TrueNegativeLoss:
    """The loss with the options of a name; every word has three synonyms, and a text was counted."""
    options = TrueNegativeOptions(**{**LOSSES, **OF_A_MODEL}[name])
    words = range(WORDS - 4)
    setting = setting_of(options, [(4 + word, 4 + (word + step) % len(words)) for word in words for step in (1, 2, 5)])
    text = np.random.default_rng(1).integers(4, WORDS, 400)
    vars(setting)["corpus"] = CorpusTargets(count_tokens([text], [str(word) for word in range(WORDS)], most=8))
    return TrueNegativeLoss(options, setting, **others)


def tiny_bert() -> Any:
    """A masked LM without dropout, every parameter of which matters."""
    import transformers

    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 9}
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=WORDS, pad_token_id=PAD, **sizes)).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def tiny_batch() -> dict[str, torch.Tensor]:
    """Two sentences of other lengths, with words of two pieces; 1, 2 and 3 are [CLS], [MASK] and [SEP]."""
    ids = torch.tensor([[1, 5, 11, 6, 7, 8, 9, 12, 3], [1, 20, 21, 22, 23, 3, PAD, PAD, PAD]])
    masked = torch.zeros_like(ids).bool()
    masked[[0, 0, 0, 0, 1], [1, 3, 4, 5, 2]] = True
    return {
        "input_ids": ids.masked_fill(masked, 2),
        "attention_mask": ids.ne(PAD).long(),
        "labels": ids.masked_fill(~masked, -100),
    }
