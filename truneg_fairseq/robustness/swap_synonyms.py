"""SwapSynWordNet: some words of the paragraph give way to synonyms of WordNet."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

from ..finetuning.squad_files import Question
from ..synonyms.lists import ENGLISH_STOP_WORDS
from ..synonyms.wordnet import PARTS_OF_SPEECH, open_database
from .attack import Edit, NotApplicableError, edited
from .english import English

_SHARE, _FEWEST, _MOST = 0.1, 1, 10
_TAG_CLASSES = {"N": "n", "V": "v", "J": "a", "R": "r"}


class SwapSynWordNet:
    """A tenth of the paragraph's words (1 to 10) become synonyms; the question stays.

    Words are taken in random order until enough are replaced: never punctuation, stop words or a word of an answer,
    and those without a candidate are passed over. A candidate is a lemma of the word's synsets in its part of speech,
    of one word, and not the word itself. Neither inflection nor case are repaired, as in the original.
    """

    name = "SwapSynWordNet"

    def __init__(self) -> None:
        self._english = English(parse=False)
        self._database = open_database()
        self.options: dict[str, Any] = {"tagger": self._english.description, "wordnet": self._database.version}

    def apply(self, question: Question, rng: random.Random) -> tuple[Question, dict[str, Any]]:
        """See :class:`~.attack.Transform`; the details are offset, word and synonym of each swap."""
        words = self._english.analyse(question.context).words
        free = [
            word
            for word in words
            if not (word.is_punctuation or word.text.lower() in ENGLISH_STOP_WORDS)
            and not any(word.start < answer.end and word.end > answer.start for answer in question.answers)
        ]
        rng.shuffle(free)
        found = ((word, candidates) for word in free if (candidates := self.candidates(word.text, word.tag)))
        wanted = min(_MOST, max(_FEWEST, int(_SHARE * len(words))))
        edits = [Edit(word.start, word.end, rng.choice(candidates)) for word, candidates in islice(found, wanted)]
        if not edits:
            raise NotApplicableError("no word has a synonym")
        swapped = [[edit.start, question.context[edit.start : edit.end], edit.text] for edit in sorted(edits)]
        return edited(question, edits), {"swaps": swapped}

    def candidates(self, word: str, tag: str) -> list[str]:
        """The synonyms of a word with a Penn tag, sorted; of any part of speech where WordNet lacks that of the tag."""
        pos = _TAG_CLASSES.get(tag[:1])
        names = {
            name
            for part in ([pos] if pos and tag != "RP" else PARTS_OF_SPEECH)
            for lemma in self._database.lemmas(word.lower(), part)
            for synset in self._database.synsets(lemma, part)
            for name in synset.names
        }
        return sorted(name for name in names if "_" not in name and name.lower() != word.lower())
