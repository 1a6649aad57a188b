"""Reads the WordNet database that NLTK finds, fast: 0.3 s and 50 MB where NLTK's own reader takes 3 s and 250 MB.

NLTK parses the whole index, and of every synset the glosses, frames and relations. A synonym table needs names and
antonyms only, so the files are kept as bytes and a line is read when it is asked for. The file formats are those of the
manual page wndb(5WN). The morphology is that of morphy(7WN) in the reading of NLTK >= 3.9: the answers are NLTK's, word
for word, which the tests check on every form they meet.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import TrueNegError
from .wordnet_data import FILE_SUFFIXES, find_wordnet, read_database

PAPERS_VERSION = "3.0"
"""The WordNet of the paper's tables."""

PARTS_OF_SPEECH = tuple(FILE_SUFFIXES)
"""Nouns, verbs, adjectives (satellites included) and adverbs, as WordNet writes them and in NLTK's order."""

_logger = logging.getLogger(__name__)

_ENDINGS = {
    "n": "s> ses>s ves>f xes>x zes>z ches>ch shes>sh men>man ies>y",
    "v": "s> ies>y es>e es> ed>e ed> ing>e ing>",
    "a": "er> est> er>e est>e",
    "r": "",
}
_DETACHMENTS = {pos: [tuple(rule.split(">")) for rule in rules.split()] for pos, rules in _ENDINGS.items()}
_MARKER = re.compile(r"\([a-z]+\)$")  # the place of an adjective: "elect(ip)"


@dataclass(frozen=True)
class Synset:
    """A set of synonyms."""

    names: tuple[str, ...]  # the lemma names, spaces as ``_``
    antonyms: tuple[tuple[str, str], ...]  # (name, antonym) pairs: antonymy holds between words, not between sets
    # part of speech and offset of the synsets called similar (adjectives have some)
    similar: tuple[tuple[str, int], ...]


class WordNetDatabase:
    """WordNet's index, exception lists and synsets.

    Args:
        location: the folder, or the ``wordnet.zip``, that :func:`~.wordnet_data.find_wordnet` gives.
    """

    def __init__(self, location: Path) -> None:
        self._location = location
        self._index: dict[str, dict[str, str]] = {}
        self._exceptions: dict[str, dict[str, list[str]]] = {}
        self._data: dict[str, bytes] = {}
        self._parsed: dict[tuple[str, int], Synset] = {}
        files = read_database(location)
        for pos, suffix in FILE_SUFFIXES.items():
            self._index[pos] = _read_index(self._text(files, f"index.{suffix}"))
            if not self._index[pos]:
                raise self._damaged(f"index.{suffix} has no lemma")
            exceptions = map(str.split, self._text(files, f"{suffix}.exc").splitlines())
            self._exceptions[pos] = {fields[0]: fields[1:] for fields in exceptions if fields}
            self._data[pos] = files[f"data.{suffix}"]
        # Bound to the object, not to the class: the cache goes when the database goes.
        self.lemmas: Callable[[str, str], tuple[str, ...]] = lru_cache(maxsize=1 << 17)(self._lemmas)

    def _text(self, files: dict[str, bytes], name: str) -> str:
        try:
            if b"\0" in files[name]:
                raise self._damaged(f"{name} has zeros in it")
            return files[name].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(f"{name} is not UTF-8 at byte {error.start}") from None

    @property
    def version(self) -> str:
        """WordNet's version, "3.0"; "unknown" where the licence at the head of data.adj names none."""
        found = re.search(rb"WordNet (\d+\.\d+)", self._data["a"][:4096])
        return found[1].decode() if found else "unknown"

    def _lemmas(self, word: str, pos: str) -> tuple[str, ...]:
        """The lemmas of a word: itself where WordNet lists it, then its base forms; lower-case, without repeats.

        Args:
            word: in lower case.
            pos: one of :data:`PARTS_OF_SPEECH`.
        """
        forms = self._exceptions[pos].get(word)
        if forms is None:
            forms = [word[: -len(old)] + new for old, new in _DETACHMENTS[pos] if word.endswith(old)]
        index = self._index[pos]
        return tuple(dict.fromkeys(form for form in (word, *forms) if form in index))

    def has(self, lemma: str, pos: str) -> bool:
        """Whether WordNet lists a lemma (lower case, spaces as ``_``) in one part of speech."""
        return lemma in self._index[pos]

    def synsets(self, lemma: str, pos: str) -> list[Synset]:
        """The synsets of one lemma (lower case, spaces as ``_``) in one part of speech, without morphology."""
        line = self._index[pos].get(lemma)
        if line is None:
            return []
        try:
            fields = line.split()
            return [self._synset(pos, int(offset)) for offset in fields[-int(fields[1]) :]]
        except (ValueError, IndexError, KeyError):
            raise self._damaged(f"the synsets of {lemma!r} in index.{FILE_SUFFIXES[pos]} cannot be read") from None

    def similar(self, synset: Synset) -> list[Synset]:
        """The synsets that WordNet calls similar to one: of an adjective the rest of its cluster, or the head of it."""
        return [self._synset(pos, offset) for pos, offset in synset.similar]

    def _synset(self, pos: str, offset: int) -> Synset:
        synset = self._parsed.get((pos, offset))
        if synset is None:
            synset = self._parsed[pos, offset] = self._parse(pos, offset)
        return synset

    def _parse(self, pos: str, offset: int) -> Synset:
        fields = self._fields(pos, offset)
        names = _names(fields)
        first = 5 + 2 * len(names)  # of the pointers, four fields each: symbol, offset, part of speech, ends
        antonyms: list[tuple[str, str]] = []
        similar: list[tuple[str, int]] = []
        for place in range(first, first + 4 * int(fields[first - 1]), 4):
            symbol, target, target_pos, ends = fields[place : place + 4]
            target_pos = "a" if target_pos == "s" else target_pos
            if symbol == "!" and ends != "0000":
                others = _names(self._fields(target_pos, int(target)))
                antonyms.append((names[int(ends[:2], 16) - 1], others[int(ends[2:], 16) - 1]))
            elif symbol == "&":
                similar.append((target_pos, int(target)))
        return Synset(tuple(names), tuple(antonyms), tuple(similar))

    def _fields(self, pos: str, offset: int) -> list[str]:
        data = self._data[pos]
        fields = data[offset : data.index(b"|", offset)].decode("utf-8").split()
        if int(fields[0]) != offset:
            raise ValueError("another synset's line")
        return fields

    def _damaged(self, what: str) -> TrueNegError:
        return TrueNegError(
            f"{self._location}: {what}; expected WordNet's database; remove it and run 'truneg wordnet'"
        )


def open_database() -> WordNetDatabase:
    """The WordNet that NLTK finds."""
    location = find_wordnet()
    if location is None:
        raise TrueNegError(
            "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet' "
            "(or python -m nltk.downloader wordnet, or set NLTK_DATA to a folder that holds corpora/wordnet)"
        )
    database = WordNetDatabase(location)
    if database.version != PAPERS_VERSION:
        _logger.warning(
            f"{location}: is WordNet {database.version}, the paper's is {PAPERS_VERSION}: other synonyms; 'truneg "
            f"wordnet' gets {PAPERS_VERSION}"
        )
    return database


def _read_index(text: str) -> dict[str, str]:
    """The rest of its line by lemma; the licence at the head is indented."""
    entries = (line.partition(" ") for line in text.splitlines() if line and not line.startswith(" "))
    return {lemma: rest for lemma, _, rest in entries}


def _names(fields: list[str]) -> list[str]:
    return [_MARKER.sub("", name) for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
