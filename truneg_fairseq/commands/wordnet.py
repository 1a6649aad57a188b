"""``truneg wordnet``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WordNetOptions:
    """None."""


def wordnet(options: WordNetOptions) -> None:
    """Install WordNet 3.0 for NLTK, without root, and check it. It goes to the first folder of NLTK_DATA, else to
    nltk_data in the virtual environment, else in the home folder.
    """
    from ..synonyms.wordnet_data import install_wordnet

    print(f"WordNet: {install_wordnet(report=print)}")
