"""Synonym tables: lexicons answer "synonyms of this word", :func:`build_table` makes a table for a vocabulary."""

from .builder import build_table
from .lexicon import Lexicon
from .settings import LexiconSettings
from .sources import SOURCES, open_lexicon
from .table import SynonymTable

__all__ = ["SOURCES", "Lexicon", "LexiconSettings", "SynonymTable", "build_table", "open_lexicon"]
