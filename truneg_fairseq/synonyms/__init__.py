"""Synonym tables: lexicons answer "synonyms of this word", :func:`build_table` makes a table for a vocabulary."""

from .building import SOURCES, SourceOptions, build_table, open_lexicon
from .lists import Lexicon
from .table import SynonymTable

__all__ = ["SOURCES", "Lexicon", "SourceOptions", "SynonymTable", "build_table", "open_lexicon"]
