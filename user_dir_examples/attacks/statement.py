"""A question and an answer as a statement (AddSentenceDiverse, step 5).

The rules work on the places of the question's words, so that its words may have been altered before: "Where did Paul
move in 2005?" becomes "Paul moved in ANSWER in 2005." Which words belong together is read from the dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from parsed import Word

_DO = frozenset({"do", "does", "did"})
_CONTRACTIONS = {"'s": "is", "'re": "are"}
_BE = frozenset({"is", "are", "was", "were", "'s", "'re"})
_MODALS = frozenset({"can", "could", "will", "would", "may", "might", "must", "should"})
_AUXILIARIES = _DO | _BE | _MODALS | {"has", "have", "had"}
_SUBJECTS = frozenset({"nsubj", "nsubjpass", "csubj", "expl"})
_OBJECTS = frozenset({"dobj", "pobj", "attr", "oprd", "dative"})
_ADVERBS = {"where": "in {}", "when": "in {}", "why": "because of {}", "how": "by {}"}
_TIMES = {
    **dict.fromkeys(("year", "years", "month", "century", "decade", "season", "period", "era"), "in"),
    **{"day": "on", "date": "on", "time": "at"},
}
_MEASURES = {
    **{"old": "{} years old", "long": "{} years", "often": "{} times a year", "far": "{} miles", "much": "{}"},
    **dict.fromkeys(("tall", "high", "deep"), "{} feet"),
    **dict.fromkeys(("wide", "large", "big"), "{} miles"),
}
_OF_A_NOUN = ("NN", "JJ", "CD", "VBN", "VBG", "HYPH", "RB", "DT")
_JOINED = ("POS", ",", ":", "-RRB-")
_RELATIVE = frozenset({"that", "who", "which", "whom", "whose"})
_CLAUSES = frozenset({"relcl", "acl", "advcl", "ccomp"})

Piece = int | str
"""A place in the question, or words to be put in."""
Inflect = Callable[[str, str], str | None]


@dataclass
class _Asked:
    """What is asked for."""

    begin: int  # first place of the question phrase, its preposition included
    end: int
    head: int  # the place of its noun, or of the question word
    word: str  # the question word in lower case
    preposition: bool  # whether the phrase begins with one
    answer: list[Piece] = field(default_factory=list)  # the phrase that takes its place, with the answer filled in

    @property
    def is_adverbial(self) -> bool:
        """Whether it asks for a circumstance, which stands at the end of a statement."""
        return self.preposition or (self.word in _ADVERBS and self.end == self.head + 1 and self.begin == self.head)


def statement(words: Sequence[Word], texts: Sequence[str], answer: str, inflect: Inflect) -> str | None:
    """A sentence that answers a question, capitalised and with a full stop; None if no rule fits.

    ``words`` are the question's as it was asked, with dependencies; ``texts`` what to write for each, "" for nothing.
    ``inflect`` gives the form of a verb with a Penn tag (VBD, VBZ), None if it is not known.
    """
    while words and words[-1].is_punctuation and words[-1].text not in ('"', "''", ")", "]"):
        words = words[:-1]
    places = (place for place, word in enumerate(words) if word.tag in ("WDT", "WP", "WP$", "WRB"))
    place = next((place for place in places if not _is_relative(words, place)), None)
    asked = None if place is None else _phrase(words, place, answer)
    pieces = None if asked is None else _arrange(words, asked, inflect)
    return None if pieces is None else _written(pieces, words, texts)


def _is_relative(words: Sequence[Word], place: int) -> bool:
    """Whether a question word begins a clause of its own ("the year when he died") before the question's."""
    later = any(word.tag.startswith("W") for word in words[place + 1 :])
    head = words[place].head
    clause = head < len(words) and words[head].relation in _CLAUSES  # a symbol at the end ("what %?") is cut off
    if place == 0:  # "When dating rocks, what ..."
        asked = (word.tag.startswith("W") and words[index].text == "," for index, word in enumerate(words[1:]))
        return words[0].tag == "WRB" and any(asked)
    return later and (clause or words[place].text.lower() in _RELATIVE)


def _phrase(words: Sequence[Word], place: int, answer: str) -> _Asked | None:
    """The question phrase from its word on: "what", "how many people", "in which city of France"."""
    head = _noun_after(words, place)
    preposition = place > 0 and words[place - 1].tag in ("IN", "TO")
    asked = _Asked(place - preposition, head + 1, head, words[place].text.lower(), preposition)
    front: list[Piece] = [place - 1] if preposition else []
    if any(words[index].tag == "POS" for index in range(place, asked.end)):
        return None
    if asked.word == "how":
        asked.answer = _how(words, place, answer, asked)
    elif asked.word == "whose" and head > place:
        asked.answer = [f"{answer}'s", *range(place + 1, head + 1)]
    elif head > place:
        asked.end = _end_of_phrase(words, head)
        asked.answer = _of(words, place, asked, answer)
    elif asked.word in _ADVERBS and not _ends_with_preposition(words):
        asked.answer = [_ADVERBS[asked.word].format(answer)]
    else:
        asked.answer = [answer]
    if not asked.answer:
        return None
    asked.answer = [*front, *asked.answer]
    return asked


def _noun_after(words: Sequence[Word], place: int) -> int:
    """The last word of the noun phrase that a question word begins; the question word itself if no noun follows."""
    last = place
    if words[place].text.lower() in ("where", "when", "why"):
        return last
    for index in range(place + 1, len(words)):
        word = words[index]
        if word.text.lower() in _AUXILIARIES or not (word.tag.startswith(_OF_A_NOUN) or word.tag == "POS"):
            break
        if word.tag.startswith("NN"):
            last = index
    return last


def _how(words: Sequence[Word], place: int, answer: str, asked: _Asked) -> list[Piece]:
    following = words[place + 1].text.lower() if place + 1 < len(words) else ""
    if following == "many" or (following == "much" and asked.head > place):
        asked.end = max(asked.end, place + 2)
        asked.head = asked.end - 1
        amount = [answer] if following == "many" else [f"{answer} of the"]
        return [*amount, *range(place + 2, asked.end)]
    if following in _MEASURES:
        asked.head, asked.end = place + 1, place + 2
        return [_MEASURES[following].format(answer)]
    if following in _AUXILIARIES:
        asked.head, asked.end = place, place + 1
        return [_ADVERBS["how"].format(answer)]
    return []


def _end_of_phrase(words: Sequence[Word], head: int) -> int:
    """Behind an of-phrase that belongs to the noun: "kind of experiments"."""
    place = head + 1
    if place == len(words) or words[place].text.lower() != "of" or words[place].head != head:
        return place
    for index in range(place + 1, len(words)):
        verb = words[index].text.lower() in _AUXILIARIES or words[index].tag.startswith(("VB", "MD", "IN", "W"))
        if verb or (words[index].tag == "DT" and words[index - 1].tag.startswith("NN")):
            return index
    return len(words)


def _of(words: Sequence[Word], place: int, asked: _Asked, answer: str) -> list[Piece]:
    """ "the NP of ANSWER", with a preposition where times need one."""
    noun: list[Piece] = ["the", *range(place + 1, asked.end), "of", answer]
    preposition = _TIMES.get(words[asked.head].text.lower())
    adverbial = words[asked.head].relation not in _SUBJECTS and _is_auxiliary(words, asked.end)
    if preposition and adverbial and not asked.preposition and not _is_copula(words, asked.end):
        asked.preposition = True
        return [preposition, *noun]
    return noun


def _is_auxiliary(words: Sequence[Word], place: int) -> bool:
    return place < len(words) and words[place].text.lower() in _AUXILIARIES


def _is_copula(words: Sequence[Word], place: int) -> bool:
    """Whether this is a form of "be" without another verb behind it."""
    verbs = any(word.tag.startswith("VB") and word.relation not in _CLAUSES for word in words[place + 1 :])
    return words[place].text.lower() in _BE and not verbs


def _ends_with_preposition(words: Sequence[Word]) -> bool:
    return words[-1].tag in ("IN", "TO") and not any(word.head == len(words) - 1 for word in words[:-1])


def _arrange(words: Sequence[Word], asked: _Asked, inflect: Inflect) -> list[Piece] | None:
    """The places and words of the statement in order."""
    lead: list[Piece] = list(range(asked.begin))
    rest = range(asked.end, len(words))
    # Asked at the end: "it was built in which year?"
    in_place = any(words[place].tag.startswith(("VB", "MD")) for place in range(asked.begin))
    if in_place and words[asked.begin - 1].text != ",":
        return [*lead, *asked.answer, *rest]
    if not rest:
        return None
    clause = _with_subject(words, asked, inflect) if _is_auxiliary(words, asked.end) else None
    if clause is not None:
        return [*lead, *clause]
    # The question phrase is the subject, or nothing is known of the rest: the phrase is replaced.
    stranded = _is_auxiliary(words, asked.end) and _ends_with_preposition(words)
    negated = any(word.text.lower() == "n't" for word in words[asked.end + 1 : asked.end + 2])
    if asked.is_adverbial or stranded or negated or words[asked.end].text.lower() in _DO:
        return None
    return [*lead, *asked.answer, *rest]


def _with_subject(words: Sequence[Word], asked: _Asked, inflect: Inflect) -> list[Piece] | None:
    """Subject, auxiliary or inflected verb, the rest with the answer; None where no subject follows the auxiliary."""
    auxiliary = asked.end
    subject = _subject(words, auxiliary)
    if subject is None:
        return None
    rest = list(range(subject.stop, len(words)))
    main = next((place for place in rest if words[place].tag.startswith("VB")), None)
    do = words[auxiliary].text.lower()
    if do not in _DO:
        governor = subject.stop - 1 if _is_copula(words, auxiliary) else main
        return [*subject, auxiliary, *_inserted(words, rest, asked, governor)]
    if main is None:  # a verb that was taken for a noun
        main = next((place for place in rest if words[place].relation == "ROOT"), None)
    if main is None:
        return None
    verb: str | None = words[main].text.lower()
    if verb is not None and do != "do":
        verb = inflect(verb, "VBD" if do == "did" else "VBZ")
    if verb is None:
        return None
    return [*subject, *(verb if piece == main else piece for piece in _inserted(words, rest, asked, main))]


def _subject(words: Sequence[Word], auxiliary: int) -> range | None:
    """The places of the subject, which begins right behind an auxiliary; None where the parser sees none."""
    begin = auxiliary + 1
    noun = next((place for place in range(begin, len(words)) if words[place].relation in _SUBJECTS), None)
    inside = [] if noun is None else [place for place in range(begin, len(words)) if _descends(words, place, noun)]
    if noun is None or inside[0] != begin:
        return None
    end = noun + 1
    while end in inside:
        end += 1
    if end == len(words) and _ends_with_preposition(words):
        # "was the war caused by": the parser takes the verb for a part of the subject.
        end = next((place for place in range(noun + 1, end) if words[place].tag.startswith("VB")), end)
    return range(begin, end)


def _descends(words: Sequence[Word], place: int, ancestor: int) -> bool:
    while place != ancestor and words[place].head != place and words[place].head < len(words):
        place = words[place].head
    return place == ancestor


def _inserted(words: Sequence[Word], rest: list[int], asked: _Asked, after: int | None) -> list[Piece]:
    """The rest with the answer: behind the preposition or verb that governs it, else behind a given place or last."""
    is_object = words[asked.head].relation in _OBJECTS and not asked.is_adverbial
    if _ends_with_preposition(words) or not is_object:
        return [*rest, *asked.answer]
    for place in (words[asked.head].head, after):
        if place is not None and place > asked.end:
            where = rest.index(place) + 1 if place in rest else 0
            while where < len(rest) and words[rest[where]].tag == "RP":
                where += 1
            return [*rest[:where], *asked.answer, *rest[where:]]
    return [*rest, *asked.answer]


def _written(pieces: Sequence[Piece], words: Sequence[Word], texts: Sequence[str]) -> str:
    """The text: words that stood together in the question still do, everything else is separated by spaces."""
    text, previous = "", None
    for piece in pieces:
        written = texts[piece] if isinstance(piece, int) else piece
        if not written:
            continue
        if piece == 0 and text and not words[0].tag.startswith("NNP"):
            written = written[:1].lower() + written[1:]
        if text and (
            isinstance(piece, str)
            or words[piece - 1].space
            or (previous != piece - 1 and words[piece].tag not in _JOINED)
        ):
            written = f" {_CONTRACTIONS.get(written, written)}"
        text += written
        previous = piece if isinstance(piece, int) else None
    text = text.rstrip(" ,")
    return f"{text[:1].upper()}{text[1:]}."
