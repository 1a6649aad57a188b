"""Output on terminals that do not know every character."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_SPELLINGS = {
    "Δ": "diff.",
    "→": "->",
    "↑": "^",
    "↓": "v",
    "±": "+-",
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
}


def spell_for_terminal(stream: TextIO) -> None:
    """Makes a stream spell what its encoding lacks (ASCII, Latin-1), in place of a UnicodeEncodeError."""
    in_locale_c = "surrogateescape"
    if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", in_locale_c):
        codecs.register_error("truneg_fairseq.spell", _spell)
        stream.reconfigure(errors="truneg_fairseq.spell")


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    found = error.object[error.start : error.end]
    spelt = (_SPELLINGS.get(character) or character.encode("ascii", "backslashreplace").decode() for character in found)
    return "".join(spelt), error.end
