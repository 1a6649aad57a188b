"""Install WordNet 3.0 for NLTK, without root, and check it."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --nltk-data."""
    parser.add_argument(
        "--nltk-data",
        type=Path,
        metavar="DIR",
        help="folder to hold corpora/wordnet (default: nltk_data in the virtual environment, else in the home folder)",
    )


def run(args: argparse.Namespace) -> None:
    """Installs WordNet where it is missing; prints how it was got, its folder and its number of synsets."""
    from ..synonyms.wordnet_data import count_synsets, install_wordnet

    location = install_wordnet(args.nltk_data, report=print)
    print(f"folder: {location}")
    print(f"synsets: {sum(count_synsets(location).values()):,}")
