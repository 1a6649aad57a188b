"""Sentence similarity without training for it: cosines of mean hidden states against people's scores (STS-B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from truneg_fairseq import register_yardstick
from truneg_fairseq.evaluation.models import OpenedModel
from truneg_fairseq.evaluation.scorer import Scorer, Tokens
from truneg_fairseq.evaluation.yardstick import Scores, Task, Yardstick
from truneg_fairseq.files import file_digest
from truneg_fairseq.finetuning.glue import TASKS, read_split
from truneg_fairseq.results.intervals import Ratio
from truneg_fairseq.results.result import Metric

TASK = "STS-B without training"


@register_yardstick("sts")
class Similarity(Yardstick):
    """STS-B's dev.tsv of GLUE, or Hugging Face's file of a split."""

    metrics: ClassVar[Mapping[str, Metric]] = {"spearman": Metric("Spearman", True)}
    notes = f"{TASK}: cosine of the means of the last layer's hidden states, first and last token included; chance 0."
    across_tokens = True

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        pairs = read_split(TASKS["STS-B"], "valid", self._file)
        assert pairs.labels is not None, "the split 'valid' has them, or is refused"
        self._ids, self._sentences = pairs.ids, [*pairs.texts[0], *pairs.texts[1]]
        self._people = np.array([float(label) for label in pairs.labels])
        self.sha256, self.described = file_digest(self._file), f"{TASK}: {len(self._people):,} pairs"

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        encoded = self._tokens.encode_batch(self._sentences)
        return self._scores(scorer.mean_states([self._tokens.framed(each[: scorer.longest - 2]) for each in encoded]))

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        embeddings, encoded = scorer.embeddings.float().cpu(), self._tokens.encode_batch(self._sentences)
        sums = [embeddings[torch.from_numpy(each[: scorer.longest - 2])].sum(0) for each in encoded]
        return {"input embeddings": self._scores(torch.stack(sums))}

    def _scores(self, vectors: torch.Tensor) -> dict[str, Scores]:
        first, second = vectors.double().chunk(2)
        cosines = torch.cosine_similarity(first, second, dim=-1).numpy()
        values = pseudo_values(self._people, cosines)
        return {TASK: Scores({"spearman": Ratio(values, np.ones(len(values)))}, self._ids)}


def pseudo_values(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The jackknife's values, shape (N,): their mean is Spearman's correlation, their spread its noise over items."""
    whole, count = _spearman(left, right), len(left)
    others = np.array([_spearman(np.delete(left, index), np.delete(right, index)) for index in range(count)])
    return whole + (count - 1) * (others.mean() - others)


def _spearman(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """0 where all values of a side are the same."""
    one, other = stats.rankdata(left), stats.rankdata(right)
    one, other = one - one.mean(), other - other.mean()
    norm = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / norm) if norm else 0.0
