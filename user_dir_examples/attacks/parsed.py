"""English text as words with parts of speech, entities and dependencies."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from english import load_english

# OntoNotes' entity types in the four of the description; numbers, dates and the like keep their own.
_ENTITIES = {
    "ORG": "ORGANIZATION",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "LOCATION"),
    **dict.fromkeys(("NORP", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE"), "MISC"),
}


class Word(NamedTuple):
    """A word or punctuation mark of a text."""

    text: str  # as written
    start: int  # its offset in the text, in characters
    space: bool = True  # whether white space follows
    tag: str = ""  # the Penn Treebank's
    entity: str = ""  # PERSON, LOCATION, ORGANIZATION, MISC, another of OntoNotes' types (DATE, CARDINAL ...), or ""
    relation: str = ""  # to its head, in ClearNLP's labels
    head: int = 0  # index of its head in the text, its own for a root

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_punctuation(self) -> bool:
        return not any(character.isalnum() for character in self.text)


class Text(NamedTuple):
    """An analysed text."""

    words: tuple[Word, ...]  # all of them, in order
    sentences: tuple[int, ...]  # the offset at which each sentence begins


class English:
    """Analyses texts by spaCy's pipeline."""

    def __init__(self) -> None:
        self._pipeline, self.description = load_english(parse=True)
        # Bound to the object, not to the class: many questions share a paragraph.
        self.analyse = lru_cache(maxsize=1 << 14)(self._analyse)

    def _analyse(self, text: str) -> Text:
        doc = self._pipeline(text)
        tokens = [token for token in doc if not token.is_space]
        place = {token.i: index for index, token in enumerate(tokens)}
        words = tuple(
            Word(
                text=token.text,
                start=token.idx,
                space=bool(token.whitespace_) or (token.i + 1 < len(doc) and doc[token.i + 1].is_space),
                tag=token.tag_,
                entity=_ENTITIES.get(token.ent_type_, token.ent_type_),
                relation=token.dep_,
                head=place.get(token.head.i, place[token.i]),
            )
            for token in tokens
        )
        return Text(words, tuple(sentence.start_char for sentence in doc.sents))
