"""``truneg data extract-corpus``."""

from __future__ import annotations

from ...corpora.extract import ExtractOptions


def extract_corpus(options: ExtractOptions) -> None:
    """Extracts a dataset or files to plain text: a paragraph a line, a blank line behind every document.

    Killed or failed, it is run again with the same flags and continues with the files that are missing.
    """
    from ...corpora.extract import extract

    for split, counts in extract(options).items():
        print(
            f"{options.output_dir / split}: {counts['documents']:,} documents, {counts['lines']:,} lines"
            + (f", {counts['replaced']:,} lines with U+FFFD (broken UTF-8)" if counts["replaced"] else "")
        )
