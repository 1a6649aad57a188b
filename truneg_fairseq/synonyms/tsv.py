"""A user's own list as a lexicon."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, reason
from .lexicon import with_accents


class TsvLexicon:
    """The synonyms of a UTF-8 file of lines ``word<TAB>synonym,synonym`` (or tabs between the synonyms as well).

    A line holds in its own direction only. Several lines of one word add up; empty lines are passed over. A word
    that the file lacks in its own spelling is looked up in any. There are no stop words: the list is what its author
    wants.
    """

    source = "tsv"
    stop_words: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        self.options: dict[str, Any] = {}
        self._names: dict[str, list[str]] = {}
        self._in_any_case: dict[str, list[str]] = {}
        for number, line in enumerate(_read_lines(path), start=1):
            if not line.strip():
                continue
            word, tab, rest = line.partition("\t")
            word = word.strip()
            names = [name.strip().replace(" ", "_") for name in rest.replace("\t", ",").split(",") if name.strip()]
            if not (tab and word and names):
                raise TrueNegError(
                    f"{path}: line {number} is {line[:80].rstrip()!r}, expected 'word<TAB>synonym,synonym'"
                )
            self._names.setdefault(word, []).extend([word, *names])
            self._in_any_case.setdefault(word.lower(), []).extend([word, *names])
        if not self._names:
            raise TrueNegError(f"{path}: is empty; expected lines 'word<TAB>synonym,synonym'")

    def synonyms(self, word: str) -> list[str]:
        """The word and its synonyms in the order of the file."""
        return list(dict.fromkeys(self._names.get(word) or self.in_any_case(word)))

    def in_any_case(self, word: str) -> list[str]:
        """The same of every line whose word differs from this one at most by case."""
        return self._in_any_case.get(word.lower(), [])

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        return with_accents(self._in_any_case, words)


def _read_lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TrueNegError(
            f"{path}: cannot be read ({reason(error)}); expected a file of lines 'word<TAB>synonym,synonym'"
        ) from None
    try:
        return content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TrueNegError(f"{path}: line {line} is not UTF-8; save the file as UTF-8") from None
