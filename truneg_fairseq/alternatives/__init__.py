"""Alternatives to the words of a corpus, by what else the corpus has between the same neighbours; needs numpy."""
