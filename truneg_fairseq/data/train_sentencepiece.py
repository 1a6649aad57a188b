"""A SentencePiece model of one's own, from plain text."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from ..errors import TrueNegError, reason
from ..extras import require
from ..files import make_output_folder, replacing_file
from ..paths import require_different, require_writable
from .tokenizer import SentencePieceTokenizer, cut_at_spaces
from .train_wordpiece import lines_with_progress

MODEL_TYPES = ("unigram", "bpe")

_FEWEST_SENTENCES = 100
_MOST_PIECES = 10_000_000  # SentencePiece never ends near 2 ** 31
# SentencePiece leaves out sentences of more than 4,192 bytes.
_SENTENCE_CHARACTERS = 1_000


def train_sentencepiece(
    inputs: Sequence[Path],
    output: Path,
    vocab_size: int,
    *,
    model_type: str = "unigram",
    character_coverage: float = 0.9995,
    sentences: int = 1_000_000,
) -> int:
    """Trains a SentencePiece model and writes its ``.model`` file.

    Args:
        inputs: UTF-8 text files, read once; of longer text a random sample is learned from.
        output: the file to write; its folder is made where it is missing.
        vocab_size: pieces, ``<unk>``, ``<s>`` and ``</s>`` included. Little text gives fewer.
        model_type: one of :data:`MODEL_TYPES`.
        character_coverage: share of the text's characters that get a piece; 0.9995 for alphabets of thousands.
        sentences: pieces of lines to sample, more than 100; they are what memory depends on.

    Returns:
        The number of ordinary symbols for ``dict.txt``.
    """
    require("sentencepiece", extra="fairseq")
    from sentencepiece import SentencePieceTrainer, set_random_generator_seed

    if model_type not in MODEL_TYPES:
        raise TrueNegError(f"--model-type {model_type}: expected one of {', '.join(MODEL_TYPES)}")
    if not 0.98 <= character_coverage <= 1:
        raise TrueNegError(f"--character-coverage {character_coverage}: expected 0.98 to 1")
    if not 1 <= vocab_size <= _MOST_PIECES:
        raise TrueNegError(f"--vocab-size {vocab_size}: expected 1 to {_MOST_PIECES}")
    if sentences <= _FEWEST_SENTENCES:
        raise TrueNegError(
            f"--sentences {sentences}: expected more than {_FEWEST_SENTENCES}, which SentencePiece needs"
        )
    require_different(inputs=inputs, output=output)
    require_writable(output, "--output", makes_folders=True)
    lines = _sentences(inputs)
    first = next(lines, None)
    if first is None:
        raise TrueNegError(f"{', '.join(map(str, inputs))}: no text to learn pieces from; expected lines of text")
    model = io.BytesIO()
    set_random_generator_seed(1)
    try:
        SentencePieceTrainer.train(
            sentence_iterator=chain((first,), lines),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=character_coverage,
            input_sentence_size=sentences,
            shuffle_input_sentence=True,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise TrueNegError(f"--vocab-size {vocab_size}: SentencePiece cannot train it ({reason(error)})") from None
    tokenizer = SentencePieceTokenizer(model.getvalue(), output)
    make_output_folder(output.parent)
    with replacing_file(output) as stream:
        stream.write(model.getvalue())
    return len(tokenizer.symbols())


def _sentences(inputs: Sequence[Path]) -> Iterator[str]:
    """The lines with text, long ones in pieces."""
    for line in lines_with_progress(inputs, "pieces"):
        for piece in cut_at_spaces(line, _SENTENCE_CHARACTERS):
            for start in range(0, len(piece), _SENTENCE_CHARACTERS):
                if sentence := piece[start : start + _SENTENCE_CHARACTERS].strip():
                    yield sentence
