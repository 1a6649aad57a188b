"""Measures the models that train.py made by yardsticks of ``truneg evaluate``: Zorro, SWORDS, people's next words.

    python user_dir_examples/from_scratch/judge.py novels --texts NOVELS --output OUT --arms plain corpus-0.8-falling \\
        --seeds 1 2 3 4 5 --task zorro=FOLDER lexsub=SWORDS cloze=ANSWERS

It adds lines to ``OUT/judged.jsonl``, for ``truneg compare``. Beside the models stand a model that was not trained, and
the frequencies of the words alone. Of Zorro the pairs count whose words the model has.

It shows what a model of one's own class needs to be measured: :class:`Words` and :class:`OwnModel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from train import LONGEST, SETTINGS, WORD, Experiment, MaskedLM, Text, parser_of, words_of

from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.evaluation.cloze import Cloze
from truneg_fairseq.evaluation.lexsub import Lexsub
from truneg_fairseq.evaluation.minimal_pairs import MinimalPair, Zorro
from truneg_fairseq.evaluation.models import OpenedModel
from truneg_fairseq.evaluation.scorer import Scorer, Tokens
from truneg_fairseq.evaluation.yardstick import Measured, Task, Yardstick
from truneg_fairseq.results.result import NamedModel, append_result
from truneg_fairseq.vocabulary import BOS, EOS, PAD, UNKNOWN, Vocabulary

PAIRS = 300  # of each kind of Zorro


class Words(Tokens):
    """The words of a text, in lower case."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.vocabulary = Vocabulary.from_symbols(text.symbols, "words")
        self.begin, self.end, self.padding, self.mask = text.end, text.end, PAD, text.mask
        self.special = frozenset({BOS, PAD, EOS, UNKNOWN, text.mask})

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._text.token_counts

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.array(self._text.ids(words_of(text)), dtype=np.int64) for text in texts]

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        spans = np.array([word.span() for word in WORD.finditer(text)], dtype=np.int32).reshape(-1, 2)
        return np.array(self._text.ids(text[a:b].lower() for a, b in spans), dtype=np.int64), spans


class KnownZorro(Zorro):
    """The pairs whose words are all in the dictionary."""

    def pairs_of(self, file: Path, content: bytes) -> Iterator[MinimalPair]:
        for pair in super().pairs_of(file, content):
            if all(UNKNOWN not in words for words in self._tokens.encode_batch([pair.good, pair.bad])):
                yield pair


YARDSTICKS: dict[str, type[Yardstick]] = {"zorro": KnownZorro, "lexsub": Lexsub, "cloze": Cloze}


class OwnModel(OpenedModel):
    """A model that reads at most LONGEST tokens: of longer contexts those around the place that is asked for.

    ``logits`` gives those at positions, shape (N,), of the flattened tokens, shape (N, T), T <= LONGEST.
    """

    def __init__(self, path: Path, words: Words, model: MaskedLM, logits: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.path, self._words, self._model, self._logits = path, words, model, logits

    def tokens(self, tokenization: str = "auto") -> Tokens:
        return self._words

    def scorer(self, tokens: Tokens, *, counts: Path | None = None) -> Scorer:
        return Scorer(
            path=self.path,
            model=self._model,
            embedding=self._model.words,
            logits=self._around,
            layers=lambda *_: (),  # hidden states, which these yardsticks do not ask for
            padding=PAD,
            longest=1 << 20,  # tokens of a context
            cpu=True,
        )

    def _around(self, tokens: Tensor, lengths: Tensor, asked: Tensor) -> Tensor:
        rows, places = asked.nonzero(as_tuple=True)
        width = min(LONGEST, tokens.size(1))
        start = (places - width // 2).clamp(min=0).minimum((lengths[rows] - width).clamp(min=0))
        window = start[:, None] + torch.arange(width)
        read = tokens[rows].gather(1, window).masked_fill(window >= lengths[rows, None], PAD)
        return self._logits(read, torch.arange(len(rows)) * width + places - start)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    torch.set_num_threads(1)
    parser = parser_of(__doc__ or "")
    parser.add_argument("--task", nargs="+", required=True, metavar="NAME=FILE")
    args = parser.parse_args(arguments)
    setting = SETTINGS[args.setting]
    text = Text(setting, args.texts, args.output / args.setting)
    experiment, tokens = Experiment(args.setting, setting, text, args.output), Words(text)
    frequencies, unasked = text.frequencies, MaskedLM(len(text.symbols), setting)
    by_frequency = OwnModel(text.dictionary, tokens, unasked, lambda _, places: frequencies.expand(len(places), -1))
    yardsticks = []
    for name, _, file in (each.partition("=") for each in args.task):
        if name not in YARDSTICKS or not file:
            raise TrueNegError(f"--task {name}: expected {', '.join(YARDSTICKS)}, each NAME=FILE")
        yardsticks.append(YARDSTICKS[name](Task(name, (file,), limit=PAIRS), tokens, by_frequency))
        print(yardsticks[-1].described, flush=True)
    for seed in args.seeds:
        torch.manual_seed(seed)
        models = {"untrained": MaskedLM(len(text.symbols), setting)}
        models |= {arm: experiment.model(arm, seed) for arm in args.arms}
        opened = {name: OwnModel(experiment.saved(name, seed), tokens, model, model) for name, model in models.items()}
        opened["frequencies"] = by_frequency
        for name, model in opened.items():
            scorer, named = model.scorer(tokens), NamedModel(name, model.path, seed)
            for yardstick in yardsticks:
                for result in Measured(named, yardstick, yardstick.score(scorer)).results():
                    append_result(args.output / "judged.jsonl", result)
            print(f"{name}, seed {seed}: measured", flush=True)


if __name__ == "__main__":
    main()
