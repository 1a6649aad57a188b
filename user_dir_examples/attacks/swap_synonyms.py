"""SwapSynWordNet: words of the paragraphs become synonyms of WordNet.

python user_dir_examples/attacks/swap_synonyms.py dev-v1.1.json swapped.json
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import islice
from typing import Any

from attack import AttackOptions, Edit, NotApplicableError, attack_file, edited
from english import load_english

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.finetuning.squad_files import Question
from truneg_fairseq.synonyms.lists import ENGLISH_STOP_WORDS
from truneg_fairseq.synonyms.wordnet import PARTS_OF_SPEECH, open_database

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
        self._pipeline, tagger = load_english(parse=False)
        self._database = open_database()
        self.options: dict[str, Any] = {"tagger": tagger, "wordnet": self._database.version}
        self.tagged = lru_cache(maxsize=1 << 14)(self._tagged)  # many questions share a paragraph

    def _tagged(self, text: str) -> list[tuple[Edit, str]]:
        """The words and punctuation marks at their places, with Penn tags."""
        found = [token for token in self._pipeline(text) if not token.is_space]
        return [(Edit(token.idx, token.idx + len(token.text), token.text), token.tag_) for token in found]

    def apply(self, question: Question, rng: random.Random) -> tuple[Question, dict[str, Any]]:
        """See ``attack.Transform``; the details are offset, word and synonym of each swap."""
        words = self.tagged(question.context)
        free = [
            (word, tag)
            for word, tag in words
            if any(map(str.isalnum, word.text))
            and word.text.lower() not in ENGLISH_STOP_WORDS
            and not any(word.start < answer.end and word.end > answer.start for answer in question.answers)
        ]
        rng.shuffle(free)
        found = ((word, candidates) for word, tag in free if (candidates := self.candidates(word.text, tag)))
        wanted = min(_MOST, max(_FEWEST, int(_SHARE * len(words))))
        edits = [word._replace(text=rng.choice(candidates)) for word, candidates in islice(found, wanted)]
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
            for name in synset.lemma_names()
        }
        return sorted(name for name in names if "_" not in name and name.lower() != word.lower())


def main(options: AttackOptions) -> None:
    """Attack SQuAD's questions: words of the paragraphs become synonyms of WordNet (SwapSynWordNet).

    Writes the questions that it applies to, transformed, with their answers at their offsets and their ids as they
    were, and beside them the pairs of original and transformed questions.
    """
    print("\n".join(attack_file(options, SwapSynWordNet)))


if __name__ == "__main__":
    run_as_script(main)
