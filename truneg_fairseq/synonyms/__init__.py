"""Synonym tables: lexicons answer "synonyms of this word", :func:`build_table` makes a table for a vocabulary."""

from .builder import build_table
from .lexicon import SOURCES, Lexicon, open_lexicon
from .table import SynonymTable

__all__ = ["SOURCES", "Lexicon", "SynonymTable", "build_table", "open_lexicon"]
