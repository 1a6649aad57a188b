"""``truneg data train-wordpiece``."""

from __future__ import annotations

from ...data.train_wordpiece import TrainWordpieceOptions


def train_wordpiece(options: TrainWordpieceOptions) -> None:
    """Trains a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch."""
    from ...data.train_wordpiece import train_wordpiece as run

    entries = run(options)
    fewer = f" of {options.vocab_size:,}: the text has no more" if entries < options.vocab_size else ""
    print(f"{options.output}: {entries:,} entries{fewer}")
