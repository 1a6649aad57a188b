"""A detector: a prediction with the stem of the original word is no mistake."""

import torch
from nltk.stem.porter import PorterStemmer
from torch import Tensor

from truneg_fairseq import Alternatives, register_alternatives


@register_alternatives("same-stem")
class SameStem(Alternatives):
    """Accepts *walked* for *walks*."""

    reads = frozenset()  # nothing but the two words
    is_certain = True  # yes or no

    def __init__(self, setting) -> None:  # noqa: ANN001
        super().__init__()
        stem, numbers = PorterStemmer().stem, {}
        stems = [f"{row}#" if word is None else stem(word) for row, word in enumerate(setting.words.words)]
        self.register_buffer("stem", torch.tensor([numbers.setdefault(each, len(numbers)) for each in stems]))

    def accepts(self, batch, tokens: Tensor, model) -> Tensor:  # noqa: ANN001
        return self.stem[batch.gold].eq(self.stem[tokens]).float()
