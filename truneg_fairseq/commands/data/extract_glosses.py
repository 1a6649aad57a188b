"""``truneg data extract-glosses``."""

from __future__ import annotations

from ...synonyms.glosses import ExtractGlossesOptions


def extract_glosses(options: ExtractGlossesOptions) -> None:
    """Writes WordNet's glosses and examples as train.txt and valid.txt, one synset a line."""
    from ...synonyms.glosses import extract_glosses as run

    train, valid = run(options)
    print(f"{options.output_dir / 'train.txt'}: {train:,} lines")
    print(f"{options.output_dir / 'valid.txt'}: {valid:,} lines")
