"""Corpora: published datasets and text files to plain text, and plain text to lines."""
