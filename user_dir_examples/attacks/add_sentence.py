"""AddSentenceDiverse: a sentence that answers another question stands before the one with the answer.

An attack is a class with the attributes and the method of ``attack.Transform``.

    python user_dir_examples/attacks/add_sentence.py dev-v1.1.json added.json --vectors glove.6B.50d.txt
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from attack import AttackOptions, Edit, NotApplicableError, attack_file, edited
from parsed import English, Text, Word
from statement import statement
from words import Alteration, NearbyWords, fake_answer

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.finetuning.squad_files import Answer, Question, normalize
from truneg_fairseq.flags import option
from truneg_fairseq.synonyms.inflected import Inflector
from truneg_fairseq.synonyms.wordnet import open_database

_VOWEL = re.compile(r"[aeio]|un(?!i)", re.IGNORECASE)  # "an unfair", "a united", "a UNICEF"


class AddSentenceDiverse:
    """Alters the question, invents an answer, makes a statement of both, and puts it before the answer's sentence.

    After Jia and Liang's AddOneSent. Nothing in it is random. Without word vectors constants take the place of nearby
    words.
    """

    name = "AddSentenceDiverse"

    def __init__(self, vectors: Path | None = None, *, english: English | None = None) -> None:
        self._english = english or English()
        self._inflector = Inflector()
        database = open_database()
        self._alter = Alteration(database, None if vectors is None else NearbyWords(vectors))
        self.options: dict[str, Any] = {
            "parser": self._english.description,
            "wordnet": database.version,
            "lemminflect": self._inflector.version,
            "vectors": None if vectors is None else vectors.name,
        }

    def apply(self, question: Question, rng: random.Random) -> tuple[Question, dict[str, Any]]:
        """See ``Transform``; the details are the sentence, the answer in it and the altered words."""
        if not question.answers:
            raise NotApplicableError("the question has no answer")
        asked = self._english.analyse(question.text.strip()).words
        context = self._english.analyse(question.context)
        first = question.answers[0]
        answer = [word for word in context.words if word.start < first.end and word.end > first.start]
        if not asked or not answer:
            raise NotApplicableError("the question or its answer has no words")
        altered = {place: word for place in range(len(asked)) if (word := self._alter(asked, place))}
        if not altered:
            raise NotApplicableError("no word of the question can be altered")
        fake = fake_answer(answer, asked)
        invented, *true = (set(normalize(text).split()) for text in (fake, *question.answer_texts))
        if any(invented <= right or right <= invented for right in true):
            raise NotApplicableError("the invented answer resembles a right one")
        sentence = statement(asked, _texts(asked, altered), fake, self._inflected)
        if sentence is None:
            raise NotApplicableError("no rule makes a statement of the question")
        place = insertion_place(context, question.answers)
        transformed = edited(question, [Edit(place, place, f"{sentence} ")])
        words = {asked[index].text: word for index, word in altered.items()}
        return transformed, {"sentence": sentence, "answer": fake, "altered": words}

    def _inflected(self, verb: str, tag: str) -> str | None:
        lemmas = [verb, *self._inflector.lemmas(verb, "v")]
        forms = (self._inflector.forms(lemma, "v").get(tag, ()) for lemma in lemmas)
        return next((form for listed in forms for form in listed), None)


def insertion_place(context: Text, answers: Sequence[Answer]) -> int:
    """The offset of the sentence with the first answer, or of an earlier one where it would stand inside an answer."""
    place, cut = 0, [answers[0].start]
    while cut:
        place = max((start for start in context.sentences if start <= min(cut)), default=0)
        cut = [answer.start for answer in answers if answer.start < place < answer.end]
    return place


def _texts(words: Sequence[Word], altered: dict[int, str]) -> list[str]:
    """The words to use: an altered word in place of several equal ones of one entity, and "a" or "an" as it needs."""
    texts = [altered.get(place, word.text) for place, word in enumerate(words)]
    for place, following in pairwise(range(len(words))):
        same = altered.get(place) is not None and altered.get(place) == altered.get(following)
        if same and words[place].entity == words[following].entity:
            texts[place] = ""
        if following in altered and words[place].text.lower() in ("a", "an"):
            article = "an" if _VOWEL.match(altered[following]) else "a"
            texts[place] = article.capitalize() if words[place].text[:1].isupper() else article
    return texts


@dataclass(kw_only=True)
class Options(AttackOptions):
    vectors: Path | None = option(None, "word vectors (GloVe ...) for nearby words", metavar="FILE")


def main(options: Options) -> None:
    """Add a misleading sentence to the paragraphs of SQuAD's questions."""
    print("\n".join(attack_file(options, lambda: AddSentenceDiverse(options.vectors))))


if __name__ == "__main__":
    run_as_script(main)
