"""An answer that is wrong, of the right answer's kind (AddSentenceDiverse, step 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from .english import Word

_OF_ENTITY = {"PERSON": "Jeff Dean", "LOCATION": "Chicago", "ORGANIZATION": "Stark Industries", "MISC": "Jupiter"}
_OF_FIRST_TAG = {"VB": "learn", "VBP": "learn", "VBD": "learned", "VBN": "learned", "VBG": "learning", "VBZ": "learns"}
_OF_LAST_TAG = {
    **{"NN": "hamster", "NNP": "Central Park", "NNS": "hamsters", "NNPS": "Kew Gardens"},
    **{"JJ": "deep", "JJR": "deeper", "JJS": "deepest", "RB": "silently", "VBG": "learning"},
}
_OF_QUESTION = {"who": "Jeff Dean", "whom": "Jeff Dean", "when": "1956", "where": "Chicago"}
_NUMBER = "42"
_OTHERWISE = "aliens"


def fake_answer(answer: Sequence[Word], question: Sequence[Word]) -> str:
    """The first that fits: of the answer's entity type, an abbreviation, of the question word, of the part of speech.

    Beyond the description, which has them for "how many" and "when" only: 42 for every "how" with an adjective or
    adverb and for an answer that ends in a number, 1956 for "what year" and for an answer that ends in a year.
    """
    return next(filter(None, _fitting(answer, question)), _OTHERWISE)


def _fitting(answer: Sequence[Word], question: Sequence[Word]) -> Iterator[str | None]:
    """By the rules in their order; None where one does not fit."""
    words = [word for word in answer if word.tag != "DT" and not word.is_punctuation] or list(answer)
    first, last = words[0], words[-1]
    if last.tag != "CD" and all(word.entity == first.entity for word in words):
        yield _OF_ENTITY.get(first.entity)
    if len(words) == 1 and first.text.isupper() and first.text.isalpha() and len(first.text) > 1:
        yield "LSTM"
    yield _of_question(question)
    if last.tag == "CD":
        yield "1956" if len(last.text) == 4 and last.text.isdigit() else _NUMBER
    yield _OF_FIRST_TAG.get(first.tag)
    fake = _OF_LAST_TAG.get(last.tag)
    if fake and last.tag.startswith("NN") and answer[0].tag == "DT":
        determiner = answer[0].text.lower()
        if determiner not in ("a", "an"):
            fake = f"{determiner} {fake}"
        elif not last.tag.endswith("S"):
            fake = f"a {fake}"  # none begins with a vowel
    yield fake


def _of_question(question: Sequence[Word]) -> str | None:
    """By the first question word and the word behind it."""
    for word, following in pairwise((*question, Word("", 0))):
        text = word.text.lower()
        if word.tag.startswith("W"):
            if text == "how" and following.tag[:2] in ("JJ", "RB"):
                return _NUMBER
            asks_year = text in ("what", "which") and following.text.lower() in ("year", "date")
            return _OF_QUESTION.get("when" if asks_year else text)
    return None
