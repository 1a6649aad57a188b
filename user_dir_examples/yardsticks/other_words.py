"""People's other words: of a masked LM's mistakes, those that another describer of the same picture used.

The first file has a description for each picture, the others have other people's descriptions of the same pictures,
line by line, such as Multi30k's test_2016_flickr.en.gz and test_2016_other.1.en.gz to .5 (github.com/multi30k/dataset):

    truneg evaluate MODEL --user-dir user_dir_examples/yardsticks --task \\
        other-words=test_2016_flickr.en.gz other-words=test_2016_other.1.en.gz other-words=test_2016_other.2.en.gz ...
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from truneg_fairseq import register_yardstick
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.models import OpenedModel
from truneg_fairseq.evaluation.scorer import Query, Scorer, Tokens
from truneg_fairseq.evaluation.yardstick import Scores, Task, Yardstick
from truneg_fairseq.results.intervals import Ratio
from truneg_fairseq.results.result import Metric
from truneg_fairseq.synonyms.lists import is_content_word

TASK = "people's other words"
_EXPECTED = "text with a line for each picture, plain or packed"


@register_yardstick("other-words")
class OtherWords(Yardstick):
    """The content words of the first file that are one token, each masked alone."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "of_mistakes": Metric("mistakes that others said", True),
        "probability": Metric("p(others)", True),
        "accuracy": Metric("accuracy", True),
    }
    notes = (
        f"{TASK}: content words of a description, each masked alone. 'mistakes that others said': of the predictions "
        "that are not the description's word, the share of content words that another description of the picture has; "
        "p(others): the probability of all of these words. another picture: the same by the words of the next picture."
    )

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        contents = self._read(task.paths, _EXPECTED)
        lines, *others = (content.decode(errors="replace").splitlines() for content in contents)
        if not others or any(len(each) != len(lines) for each in others):
            found = ", ".join(str(len(each)) for each in (lines, *others))
            raise TrueNegError(f"{', '.join(task.files)}: have {found} lines; expected two or more files of one length")
        self._queries: list[Query] = []
        self._gold: list[int] = []
        self._picture: list[int] = []
        self._items: list[str] = []
        for number, line in enumerate(lines[: task.limit]):
            for place, token in self._content_words(line):
                self._queries.append(place)
                self._gold.append(token)
                self._picture.append(number)
                self._items.append(f"{number + 1} {self._tokens.vocabulary.words[token]} {place.position}")
        self._require(self._queries, "content words that are tokens of the model")
        # A describer may be in several files: who said the same sentence is nobody else.
        said = [[each for each in of_picture if each != line] for line, *of_picture in zip(lines, *others, strict=True)]
        self._others = [self._tokens_of(" ".join(sentences)) for sentences in said]
        self.described = f"{TASK}: {len(self._queries):,} content words of {len(lines[: task.limit]):,} pictures"

    def _content_words(self, line: str) -> list[tuple[Query, int]]:
        """A line with one of its content words masked, and the word's token; only words of one token."""
        ids, spans = self._tokens.encode_with_offsets(line)
        token_at = {}
        for index, (begin, end) in enumerate(spans.tolist()):
            token_at[begin + len(line[begin:end]) - len(line[begin:end].lstrip()), end] = index
        found = []
        for word in re.finditer(r"\w+", line):
            index = token_at.get(word.span())
            if index is not None and is_content_word(word[0]) and self._tokens.is_word[ids[index]]:
                masked = self._tokens.framed(ids)
                assert self._tokens.mask is not None, "a causal LM is refused"
                masked[index + 1] = self._tokens.mask
                found.append((Query(masked, index + 1), int(ids[index])))
        return found

    def _tokens_of(self, text: str) -> NDArray[np.int64]:
        """The content words of a text that are tokens, each once."""
        words = {word for word in re.findall(r"\w+", text) if is_content_word(word)}
        return np.unique([token for word in words if (token := self._tokens.token(word)) >= 0]).astype(np.int64)

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        return self._scores(scorer, self._others)

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        return {"another picture": self._scores(scorer, [*self._others[1:], self._others[0]])}

    def _scores(self, scorer: Scorer, others: Sequence[NDArray[np.int64]]) -> dict[str, Scores]:
        right, said, probability = (np.zeros(len(self._queries)) for _ in range(3))
        for index, row in scorer.rows(self._queries):
            gold, words = self._gold[index], others[self._picture[index]]
            words = words[words != gold]
            right[index], said[index] = row.argmax() == gold, row.argmax() in words
            probability[index] = np.exp(row[words].astype(np.float64)).sum()
        everywhere = np.ones(len(right))
        ratios = {
            "of_mistakes": Ratio(said, 1 - right),
            "probability": Ratio(probability, everywhere),
            "accuracy": Ratio(right, everywhere),
        }
        return {TASK: Scores(ratios, self._items)}
