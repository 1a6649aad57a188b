"""Reads what people say of words in context, whatever the benchmark's format."""

from __future__ import annotations

from pathlib import Path

from ..files import read_bytes
from .coinco import read_coinco, read_sentences
from .semeval import read_semeval
from .swords import LARGEST_FILE, Judgements, read_judgements

_EXPECTED = "SWORDS's JSON, CoInCo's XML or SemEval-2007's XML"


def read_any(path: Path, gold: Path | None = None, content: bytes | None = None) -> Judgements:
    """SWORDS's JSON, CoInCo's XML, or SemEval-2007's XML with its gold file; plain or gzipped.

    ``content`` is that of the file, unpacked, if it has been read.
    """
    if content is None:
        content = read_bytes(path, expected=_EXPECTED, limit=LARGEST_FILE)
    if not content.lstrip().startswith(b"<"):
        return read_sentences(path, content) if b'"ss": [' in content[:1024] else read_judgements(path, content)
    return read_semeval(path, content, gold) if b"<lexelt" in content else read_coinco(path, content)
