"""Training a WordPiece vocabulary, through the script and with the encoder that uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from truneg_fairseq.data import train_wordpiece as module
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, bert_tokenizer, read_vocabulary
from truneg_fairseq.errors import TrueNegError

SCRIPT = Path(__file__).resolve().parents[2] / "data-bin-scripts" / "train_wordpiece.py"
TEXT = ["The dogs barked at the Café.", "", "[MASK] the dog barks, the cat purrs!", "unbarked 狗"] * 20


def train_wordpiece(inputs: list[Path], output: Path, vocab_size: int, cased: bool = False) -> int:
    options = module.TrainWordpieceOptions(inputs=inputs, output=output, vocab_size=vocab_size, cased=cased)
    return module.train_wordpiece(options)


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    return path


def test_the_encoder_spells_the_text_with_it(text, tmp_path):
    vocab = tmp_path / "new" / "vocab.txt"
    entries = train_wordpiece([text], vocab, vocab_size=60)
    vocabulary = read_vocabulary(vocab)
    assert len(vocabulary) == entries == 60
    assert tuple(vocabulary[:5]) == BERT_SPECIALS
    assert vocabulary == [entry.lower() if entry not in BERT_SPECIALS else entry for entry in vocabulary]
    assert "the" in vocabulary
    encoded = bert_tokenizer(vocabulary).encode(" ".join(TEXT), add_special_tokens=False).tokens
    assert not {"[UNK]", "[MASK]"} & set(encoded), "a literal [MASK] in the text is ordinary text"
    assert "".join(token.removeprefix("##") for token in encoded).startswith("thedogsbarkedatthecafe.[mask]thedog")
    train_wordpiece([text], vocab, vocab_size=1_000, cased=True)
    assert {"The", "the", "Café"} <= set(read_vocabulary(vocab))


def test_script_gives_the_same_file_in_every_process(text, tmp_path):
    for vocab in (vocabs := [tmp_path / f"{number}.txt" for number in range(3)]):
        command = [sys.executable, SCRIPT, "--inputs", text, text, "--output", vocab, "--vocab-size", "60"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"{vocab}: 60 entries; next: ")
    assert len({vocab.read_bytes() for vocab in vocabs}) == 1


def test_a_word_without_an_end_is_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("the cat\n" + "q" * 3_000_000 + " sat\n")
    train_wordpiece([tmp_path / "a.txt"], tmp_path / "v.txt", 100)
    vocabulary = (tmp_path / "v.txt").read_text().split()
    assert "q" not in vocabulary and "sat" in vocabulary


def test_no_words_to_learn(tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(TrueNegError, match=r"blank\.txt: no text to learn words from"):
        train_wordpiece([tmp_path / "blank.txt"], tmp_path / "vocab.txt", vocab_size=100)
    assert not (tmp_path / "vocab.txt").exists()
