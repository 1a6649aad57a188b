"""Soft targets from people: what they wrote where a text had another word. answers.tsv is made up; put yours there."""

from pathlib import Path

import torch
from torch import Tensor

from truneg_fairseq import Alternatives, register_alternatives

ANSWERS = Path(__file__).with_name("answers.tsv")  # the text's word, the word that people wrote, how many people


@register_alternatives("answers")
class Answers(Alternatives):
    """The words that people wrote for the original one, in proportion to their number."""

    reads = frozenset()

    def __init__(self, setting) -> None:  # noqa: ANN001
        super().__init__()
        ids = {word: row for row, word in enumerate(setting.words.words) if word is not None}
        lines = [line.split("\t") for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
        known = [(ids[gold], ids[word], float(people)) for gold, word, people in lines if gold in ids and word in ids]
        longest = max((sum(gold == other for other, *_ in known) for gold, *_ in known), default=1)
        words, weights = (
            torch.zeros(len(setting.words), longest, dtype=torch.long),
            torch.zeros(len(setting.words), longest),
        )
        for gold, word, people in known:
            place = int(weights[gold].gt(0).sum())
            words[gold, place], weights[gold, place] = word, people
        self.register_buffer("answers", words)
        self.register_buffer("weights", weights / weights.sum(1, keepdim=True).clamp(min=1))

    def words(self, batch, model) -> tuple[Tensor, Tensor]:  # noqa: ANN001
        return self.answers[batch.gold], self.weights[batch.gold]
