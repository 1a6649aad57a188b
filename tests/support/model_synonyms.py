"""A small ModelSynonyms and embeddings with many ties."""

from __future__ import annotations

from typing import Any

import torch

from truneg_fairseq.criterions.config import MaskedLmTrueNegConfig
from truneg_fairseq.criterions.model_synonyms import ModelSynonyms
from truneg_fairseq.vocabulary import Vocabulary

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>", *(f"z{chr(97 + i)}" for i in range(20)), "##x", "the", "12", "<mask>")


def synonyms(**options: Any) -> ModelSynonyms:
    defaults = {"every": 4, "warmup": 0, "threshold": 0.1}
    options = {f"model_synonyms_{name}": value for name, value in {**defaults, **options}.items()}
    cfg = MaskedLmTrueNegConfig(tpu=False, synonym_source="model", **options)
    return ModelSynonyms(Vocabulary.from_symbols(SYMBOLS, "wordpiece"), cfg, neighbours=3)


def embeddings(seed: int) -> torch.Tensor:
    return torch.randint(-3, 4, (len(SYMBOLS), 4), generator=torch.Generator().manual_seed(seed)).float()
