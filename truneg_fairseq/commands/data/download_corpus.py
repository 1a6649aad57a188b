"""Downloads a corpus as it is published, continues what was cut, and checks it: WikiText, OpenWebText, Wikipedia."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...corpora.download import CORPORA


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --corpus, --output-dir, --mirror, --language and --date."""
    parser.add_argument("--corpus", choices=(*CORPORA, "wikipedia"), required=True)
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder for the files")
    parser.add_argument("--mirror", metavar="URL", help="folder to take the files from instead of their own")
    parser.add_argument("--language", help="language of Wikipedia (default: en)")
    parser.add_argument("--date", metavar="YYYYMMDD", help="date of Wikipedia's dump")


def run(args: argparse.Namespace) -> None:
    """Downloads and prints the files."""
    from ...corpora.download import download_corpus

    for path in download_corpus(
        args.corpus, args.output_dir, mirror=args.mirror, language=args.language, date=args.date
    ):
        print(path)
