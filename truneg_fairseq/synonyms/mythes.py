"""LibreOffice's thesauri (MyThes) as a lexicon."""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, reason
from .lexicon import with_accents
from .stop_words import read_stop_words

FOLDER = Path("/usr/share/mythes")
"""Where Debian and its relatives install the packages ``mythes-*``."""

_COUNT = re.compile(r"\s*[0-9]{1,6}\s*")
_NOTE = re.compile(r"\(([^()]*)\)")
_ANTONYM = "\u2260"  # how the Romanian thesaurus begins an antonym
# Notes of terms that are broader, narrower, near or opposite, in the languages whose thesauri list such terms.
_OTHER_RELATIONS = frozenset(
    (
        "antonym, generic term, related term, similar term, oberbegriff, unterbegriff, overbegreb, underbegreb, "
        "kategória, andheiti, undirheiti, yfirheiti, antonim, pojęcie nadrzędne, pojęcie podrzędne, nadpomenka, "
        "podpomenka, protipomenka, антоним, связанный термин, сходный термин"
    ).split(", ")
)


class MythesLexicon:
    """The synonyms that a thesaurus lists for a word, all of its meanings together.

    A term with a note of another relation ("generic term", "Oberbegriff", "antonym") is left out; other notes, which
    tell register or region, are taken off. There is no morphology. Stop words are those of :func:`read_stop_words`.

    Args:
        language: ISO 639-3 code such as ``fra``.
        path: a thesaurus's ``.dat`` file; None to find the language's in :data:`FOLDER`.
        flags: how the user's flags begin, for messages.
    """

    source = "mythes"

    def __init__(self, language: str, path: Path | None = None, flags: str = "--") -> None:
        path = path or _find(language, flags)
        self._spellings, self._meanings = _read(path)
        self.stop_words, described = read_stop_words(language)
        self.options: dict[str, Any] = {"mythes": path.name, "lang": language, "stop_words": described}

    def synonyms(self, word: str) -> list[str]:
        """The word and its synonyms in the order of the file; empty where the thesaurus does not know the word."""
        key = word.lower()
        if key not in self._meanings:
            return []
        terms = [term for meaning in self._meanings[key] for term in _synonyms(meaning)]
        if key not in map(str.lower, terms):  # German entries are in lower case, and their terms spell the word
            terms.insert(0, self._spellings[key])
        return list(dict.fromkeys(term.replace(" ", "_") for term in terms))

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        return with_accents(self._meanings, words)


def _synonyms(meaning: str) -> list[str]:
    """The terms of a line ``part of speech|term|term``; the Russian thesaurus has the relation in the first place."""
    kind, *terms = meaning.split("|")
    return [] if _is_other(kind) else [_term(term) for term in terms if not _is_other(term) and _term(term)]


def _is_other(term: str) -> bool:
    return term.startswith(_ANTONYM) or any(note.strip().lower() in _OTHER_RELATIONS for note in _NOTE.findall(term))


def _term(term: str) -> str:
    return " ".join(_NOTE.sub(" ", term).split())


def _find(language: str, flags: str) -> Path:
    from nltk.langnames import iso639short

    code = iso639short.get(language.partition("_")[0], language)
    # One file may have the names of many countries, as links.
    files = sorted({path.resolve() for path in FOLDER.glob(f"th_{code}_*.dat")})
    if len(files) != 1:
        found = ", ".join(map(str, files)) if files else f"no th_{code}_*.dat in {FOLDER}"
        remedy = "name one" if files else "install the package (Debian: mythes-...), or name a .dat file"
        raise TrueNegError(
            f"{flags}lang {language}: found {found}, expected one thesaurus; {remedy} with {flags}thesaurus"
        )
    return files[0]


def _read(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The spelling and the lines of meanings of each word; the keys are lower-case."""
    lines = _read_lines(path)
    spellings: dict[str, str] = {}
    meanings: dict[str, list[str]] = defaultdict(list)
    number = 1  # of lines read; the first one names the encoding
    while number < len(lines):
        word, separator, count = lines[number].rpartition("|")
        number += 1
        if not word and not lines[number - 1].strip():
            continue
        if not (separator and _COUNT.fullmatch(count) and number + int(count) <= len(lines)):
            raise TrueNegError(
                f"{path}: line {number} is {lines[number - 1][:80]!r}, expected 'word|number' and that many lines of "
                "meanings; expected a MyThes thesaurus (th_*.dat)"
            )
        key = word.strip().lower()
        spellings.setdefault(key, word.strip())
        meanings[key] += lines[number : number + int(count)]
        number += int(count)
    if not meanings:
        raise TrueNegError(f"{path}: lists no word; expected a MyThes thesaurus (th_*.dat)")
    return spellings, dict(meanings)


def _read_lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TrueNegError(
            f"{path}: cannot be read ({reason(error)}); expected a MyThes thesaurus (th_*.dat)"
        ) from None
    named = content.removeprefix(codecs.BOM_UTF8)[:40].partition(b"\n")[0].decode("latin-1").strip()
    try:
        text = content.decode(named.removeprefix("microsoft-"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TrueNegError(
            f"{path}: line {line} is not {named}, which its first line names; get the file again"
        ) from None
    except (LookupError, ValueError):  # no encoding, or the name has a zero in it
        raise TrueNegError(
            f"{path}: its first line is {named!r}, expected an encoding such as UTF-8; expected a MyThes thesaurus "
            "(th_*.dat)"
        ) from None
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
