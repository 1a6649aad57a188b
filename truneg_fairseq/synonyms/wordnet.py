"""WordNet: where its data are, the paper's lexicon, and the pairs that no detector may accept.

Neither fairseq nor torch is imported here.
"""

from __future__ import annotations

import io
import logging
import os
import socket
import sys
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, reason
from ..vocabulary import Vocabulary
from .lists import ENGLISH_STOP_WORDS, Lexicon, find_corpus, is_content_word

logger = logging.getLogger(__name__)

SYNSETS = {"noun": 82_115, "verb": 13_767, "adj": 18_156, "adv": 3_621}
"""Of WordNet 3.0, as its authors publish them (manual page wnstats(7WN))."""
_TIMEOUT = 15  # seconds without an answer from a server


def find_wordnet() -> Path | None:
    """The WordNet that NLTK reads: its folder, or its ``wordnet.zip``; None where NLTK finds none."""
    pointer = find_corpus("wordnet")
    if pointer is None:
        return None
    archive = getattr(pointer, "zipfile", None)
    return Path(str(pointer) if archive is None else archive.filename)


def require_wordnet() -> Path:
    location = find_wordnet()
    if location is None:
        raise TrueNegError(
            "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet' (or set NLTK_DATA to a folder "
            "that holds corpora/wordnet)"
        )
    return location


def verify_wordnet(location: Path) -> None:
    """Checks that a folder or ``wordnet.zip`` has all synsets of WordNet 3.0."""
    root = location if location.is_dir() else zipfile.Path(location, "wordnet/")
    for suffix, expected in SYNSETS.items():
        lines = root.joinpath(f"data.{suffix}").read_bytes().split(b"\n")[:-1]
        found = sum(not line.startswith(b"  ") for line in lines)  # the licence is indented
        if found != expected:
            raise TrueNegError(
                f"{location}: data.{suffix} has {found:,} synsets, but WordNet 3.0 has {expected:,}; remove it and "
                "run 'truneg wordnet'"
            )


def install_wordnet(report: Callable[[str], None] = logger.info) -> Path:
    """Makes WordNet 3.0 available to NLTK, from NLTK's own server; needs no root.

    It goes to the first folder of NLTK_DATA, else below the virtual environment, else below the home folder. Returns
    the folder ``corpora/wordnet``, or a ``wordnet.zip``.
    """
    if present := find_wordnet():
        verify_wordnet(present)
        report(f"WordNet 3.0 is already in {present}")
        return present
    import nltk

    umask, timeout = os.umask(0o022), socket.getdefaulttimeout()  # NLTK refuses data that other accounts may write to
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        nltk.download("wordnet", str(data_folder()), quiet=True, raise_on_error=True, print_error_to=io.StringIO())
    except Exception as error:  # no network, half a download
        raise TrueNegError(
            f"WordNet: cannot be had from NLTK's server ({reason(error)}); data-bin-scripts/get_wordnet.py of a "
            "checkout gets it from Debian's packages, or copy corpora/wordnet of another machine to "
            f"{data_folder()}"
        ) from None
    finally:
        socket.setdefaulttimeout(timeout)
        os.umask(umask)
    location = require_wordnet()
    verify_wordnet(location)
    report("installed WordNet 3.0 from NLTK's server")
    return location


def data_folder() -> Path:
    """Where NLTK's data are put."""
    given = os.environ.get("NLTK_DATA", "").split(os.pathsep)[0]
    home = Path(sys.prefix) if sys.prefix != sys.base_prefix else Path.home()
    return Path(given).expanduser().absolute() if given else home / "nltk_data"


PARTS_OF_SPEECH = ("n", "v", "a", "r")
"""Nouns, verbs, adjectives (satellites included) and adverbs, as WordNet writes them and in NLTK's order."""


class WordNetDatabase:
    """WordNet's lemmas and synsets, of NLTK's ``WordNetCorpusReader``, which keeps the synsets that it has read."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.version: str = reader.get_version() or "unknown"
        # Bound to the object, not to the class: the cache goes when the database goes.
        self.lemmas: Callable[[str, str], tuple[str, ...]] = lru_cache(maxsize=1 << 17)(self._lemmas)

    def _lemmas(self, word: str, pos: str) -> tuple[str, ...]:
        """The lemmas of a word in lower case: itself where WordNet lists it, then its base forms."""
        return tuple(self._reader._morphy(word, pos))  # morphy() gives the first one only

    def synsets(self, lemma: str, pos: str) -> list[Any]:
        """NLTK's synsets of one lemma (lower case, spaces as ``_``) in one part of speech, without morphology."""
        offsets = self._reader._lemma_pos_offset_map.get(lemma, {}).get(pos, ())
        return [self._reader.synset_from_pos_and_offset(pos, offset) for offset in offsets]

    def synsets_of(self, word: str) -> list[Any]:
        """The synsets of a word in any form, in every part of speech; only those that list its spelling, if some do.

        "Polish" has no synset of "polish", and "Paris" none of "paris"; a word in lower case has both kinds.
        """
        lower = word.lower()
        readings = [(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in self.lemmas(lower, pos)]
        synsets = [synset for lemma, pos in readings for synset in self.synsets(lemma, pos)]
        spelled = [each for each in synsets if word in each.lemma_names()] if word != lower else []
        return spelled or synsets


class WordNetLexicon(Lexicon):
    """The paper's source: all lemma names of all synsets of a word in every part of speech, with WordNet's morphology.

    With WordNet 3.0 this gives the 13 names of Figure 3 for "primary".
    """

    source = "wordnet"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self) -> None:
        self._database = open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version}

    def synonyms(self, word: str) -> list[str]:
        return sorted({name for synset in self._database.synsets_of(word) for name in synset.lemma_names()})


def open_database() -> WordNetDatabase:
    """The WordNet that NLTK finds, read once."""
    return _read(require_wordnet())


@lru_cache(maxsize=1)
def _read(location: Path) -> WordNetDatabase:
    from nltk.corpus.reader import WordNetCorpusReader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it knows no other languages
        root = str(location) if location.is_dir() else f"{location}/wordnet/"
        database = WordNetDatabase(WordNetCorpusReader(root, None))
    if database.version != "3.0":
        logger.warning(
            f"{location}: is WordNet {database.version}, the paper has 3.0: other synonyms; 'truneg wordnet' gets 3.0"
        )
    return database


_UNITS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_REST = "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety zero hundred thousand million billion"
_ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth twentieth thirtieth hundredth"
_MORE = "first trillion dozen dozens hundreds thousands millions billions once twice thrice half halves quarter"
_NUMBER_WORDS = frozenset(f"{_UNITS} {_REST} {_ORDINALS} {_MORE}".split())


class AntonymLexicon(Lexicon):
    """WordNet's antonyms in all their forms: "cold" for "hot", and "fell" for "rose" as well as "fall".

    WordNet links lemmas: two words are antonyms if a lemma of the one is linked to a lemma of the other, by WordNet's
    morphology. Adjectives have indirect antonyms too, which WordNet gives by the heads of their clusters: "warm" and
    "cold" are opposites because "hot" and "cold" are. An indirect antonym that shares a synset with the word does not
    count: "serious" is far from "severe" in one sense, and the same in another. Only ``words`` are listed.
    ``other_forms`` lists the other forms of a word's own lemmas too.
    """

    other_cases = True

    def __init__(self, words: Iterable[str | None], *, other_forms: bool = False) -> None:
        self.source = "antonyms and other forms" if other_forms else "antonyms"
        self._database = open_database()
        self._other_forms = other_forms
        self.options: dict[str, Any] = {"wordnet": self._database.version}
        self._words_of: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for word in filter(None, words):
            for lemma in readings(self._database, word):
                self._words_of[lemma].add(word)

    def synonyms(self, word: str) -> list[str]:
        """The words that are never accepted in place of this one, sorted."""
        own = readings(self._database, word)
        lemmas = (own if self._other_forms else set()) | self._antonyms(own)
        found = set[str]().union(*(self._words_of.get(lemma, ()) for lemma in lemmas))
        return sorted(found - {word})

    def _antonyms(self, lemmas: set[tuple[str, str]]) -> set[tuple[str, str]]:
        direct: set[tuple[str, str]] = set()
        indirect: set[tuple[str, str]] = set()
        synonyms: set[tuple[str, str]] = set()
        for lemma, pos in lemmas:
            synsets = self._database.synsets(lemma, pos)
            direct |= {(antonym, pos) for name, antonym in _linked(synsets) if name == lemma}
            synonyms |= {(name.lower(), pos) for synset in synsets for name in synset.lemma_names()}
            if pos == "a":
                heads = {antonym for _, antonym in _linked(_clusters(synsets))}
                opposites = _clusters([synset for head in heads for synset in self._database.synsets(head, "a")])
                indirect |= {(name.lower(), "a") for synset in opposites for name in synset.lemma_names()}
        return direct | (indirect - synonyms)


def _linked(synsets: Sequence[Any]) -> list[tuple[str, str]]:
    """The names in some synsets with their antonyms, in lower case: antonymy holds between words, not between sets."""
    lemmas = (lemma for synset in synsets for lemma in synset.lemmas())
    return [(lemma.name().lower(), antonym.name().lower()) for lemma in lemmas for antonym in lemma.antonyms()]


def _clusters(synsets: Sequence[Any]) -> list[Any]:
    """Adjectives' synsets, each followed by those that WordNet calls similar: the rest of a cluster, or its head."""
    return [near for each in synsets for near in (each, *each.similar_tos())]


def readings(database: WordNetDatabase, word: str) -> set[tuple[str, str]]:
    """The lemmas of a word, each with its part of speech."""
    return {(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in database.lemmas(word.lower(), pos)}


def eligible_words(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """The tokens that a score can accept or be accepted for: whole content words, without numbers; bool, shape (V,)."""
    words = (word or "" for word in vocabulary.words)
    return np.array([is_content_word(word) and word.lower() not in _NUMBER_WORDS for word in words], dtype=np.bool_)
