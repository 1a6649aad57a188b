"""The little language that combines sources of synonyms.

``wordnet+embeddings`` lists what either lists, ``wordnet&embeddings`` what both list, ``embeddings-antonyms`` what the
first lists and the second does not. ``&`` binds tighter than ``+`` and ``-``, which are read from left to right;
parentheses group.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import TrueNegError

ANTONYMS = "antonyms"
"""What may be subtracted, and only subtracted: the pairs that WordNet calls antonyms."""

_LONGEST = 100  # tokens: what nests deeper than Python's recursion is no choice of sources
_TOKEN = re.compile(r"\s*([a-z0-9_]+|\S)")


@dataclass(frozen=True)
class Name:
    """One source."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def names(self) -> frozenset[str]:
        """The names of all sources in the expression."""
        return frozenset({self.name})


@dataclass(frozen=True)
class Operation:
    """Two expressions and what is between them: ``+``, ``&`` or ``-``."""

    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        loose_left = self.operator == "&" and isinstance(self.left, Operation) and self.left.operator != "&"
        left = f"({self.left})" if loose_left else str(self.left)
        # Without its parentheses the right side would be read after the left one.
        tight_right = isinstance(self.right, Name) or (self.operator != "&" and self.right.operator == "&")
        return f"{left}{self.operator}{self.right if tight_right else f'({self.right})'}"

    @property
    def names(self) -> frozenset[str]:
        """The names of all sources in the expression."""
        return self.left.names | self.right.names


Expression = Name | Operation


def parse(text: str, sources: Collection[str], flag: str) -> Expression:
    """Reads an expression.

    Args:
        text: for instance ``wordnet+embeddings-antonyms``.
        sources: the names there are, without :data:`ANTONYMS`.
        flag: that the text was given with, for messages.
    """
    return _Parser(text, sources, flag).parse()


class _Parser:
    def __init__(self, text: str, sources: Collection[str], flag: str) -> None:
        self._text = text
        self._sources = sources
        self._flag = flag
        self._tokens: list[str] = _TOKEN.findall(" ".join(text.split()))[::-1]  # the next one is the last

    def parse(self) -> Expression:
        if len(self._tokens) > _LONGEST:
            raise TrueNegError(f"{self._flag}: has {len(self._tokens):,} names and signs; expected at most {_LONGEST}")
        expression = self._sum()
        if self._tokens:
            raise self._error(f"{self._tokens[-1]!r} after a complete expression", "+, & or - between sources")
        if expression.names == {ANTONYMS}:
            raise self._error(f"{ANTONYMS!r} alone", "antonyms after a -, as in embeddings-antonyms")
        return expression

    def _sum(self) -> Expression:
        expression = self._product()
        while self._tokens and self._tokens[-1] in "+-":
            operator = self._tokens.pop()
            if operator == "-" and self._tokens and self._tokens[-1] == ANTONYMS:
                self._tokens.pop()
                expression = Operation(operator, expression, Name(ANTONYMS))
            else:
                expression = Operation(operator, expression, self._product())
        return expression

    def _product(self) -> Expression:
        expression = self._operand()
        while self._tokens and self._tokens[-1] == "&":
            self._tokens.pop()
            expression = Operation("&", expression, self._operand())
        return expression

    def _operand(self) -> Expression:
        token = self._tokens.pop() if self._tokens else ""
        if token == "(":
            inner = self._sum()
            if not self._tokens or self._tokens.pop() != ")":
                raise self._error("an open parenthesis", "a closing one")
            return inner
        if token == ANTONYMS:
            raise self._error(f"{ANTONYMS!r} as a source", "it after a -, as in embeddings-antonyms")
        if token in self._sources:
            return Name(token)
        whole = token == self._text.strip()
        found = "no source" if not token else "it" if whole else repr(token)
        raise self._error(found, f"one of {', '.join(sorted(self._sources))}")

    def _error(self, found: str, expected: str) -> TrueNegError:
        if found == "it":
            return TrueNegError(f"{self._flag}: found {self._text.strip()!r}, expected {expected}")
        return TrueNegError(f"{self._flag} {self._text!r}: found {found}, expected {expected}")
