"""A user's own list as a lexicon."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from .lexicon import Lexicon, with_accents


class TsvLexicon(Lexicon):
    """The synonyms of a UTF-8 file of lines ``word<TAB>synonym,synonym`` (or tabs between the synonyms as well).

    A line holds in its own direction only. Several lines of one word add up; empty lines are passed over. A word
    that the file lacks in its own spelling is looked up in any. There are no stop words: the list is what its author
    wants.
    """

    source = "tsv"

    def __init__(self, path: Path) -> None:
        self.options: dict[str, Any] = {}
        self._names: dict[str, list[str]] = {}
        self._in_any_case: dict[str, list[str]] = {}
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise TrueNegError(f"{path}: is not UTF-8 at byte {error.start}; save the file as UTF-8") from None
        for number, line in enumerate(lines, start=1):
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

    def synonyms(self, word: str) -> list[str]:
        """The word and its synonyms in the order of the file."""
        return list(dict.fromkeys(self._names.get(word) or self._in_any_case.get(word.lower(), [])))

    def pairs(self, word: str, name: str) -> bool:
        """Whether two words are a pair of the list, in either direction and whatever their case."""
        listed = self._in_any_case
        return any(
            right.lower() in map(str.lower, listed.get(left.lower(), []))
            for left, right in ((word, name), (name, word))
        )

    def accented(self, words: Collection[str]) -> Iterator[str]:
        return with_accents(self._in_any_case, words)
