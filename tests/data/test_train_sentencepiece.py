"""Training a SentencePiece model, through the script and with the tokenizer that uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import truneg_data

from truneg_fairseq.data.tokenizer import SentencePieceTokenizer
from truneg_fairseq.data.train_sentencepiece import train_sentencepiece
from truneg_fairseq.errors import TrueNegError

TEXT = ["The dogs barked at the Café.", "", "the dog barks, the cat purrs!", "unbarked 狗"] * 50


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("model_type", "size"), [("unigram", 30), ("bpe", 45)])
def test_the_text_is_spelled_with_it(model_type, size, text, tmp_path, capsys):
    models = [tmp_path / f"{number}.model" for number in (1, 2)]
    for model in models:
        flags = ("--vocab-size", size, "--model-type", model_type, "--character-coverage", 1, "--sentences", 101)
        truneg_data("train-sentencepiece", "--inputs", text, "--output", model, *flags)
    # <unk>, <s> and </s> are no symbols of dict.txt.
    assert capsys.readouterr().out.splitlines() == [f"{model}: {size - 3} symbols" for model in models]
    assert models[0].read_bytes() == models[1].read_bytes()
    tokenizer = SentencePieceTokenizer.from_model(models[0])
    for line in TEXT:
        assert tokenizer.decode(tokenizer.encode(line)) == line
        assert "<unk>" not in tokenizer.encode(line)


@pytest.mark.parametrize("space", [" ", ""])
def test_long_lines_are_learned_from(space, tmp_path):
    (tmp_path / "a.txt").write_text("abc\n" + space.join(["xyz"] * 3_000))
    train_sentencepiece([tmp_path / "a.txt"], tmp_path / "a.model", 30, character_coverage=1)
    assert "<unk>" not in SentencePieceTokenizer.from_model(tmp_path / "a.model").encode("xyz abc")


def test_little_text_gives_fewer_pieces(text, tmp_path):
    assert 20 < train_sentencepiece([text], tmp_path / "a.model", 32_000) < 200


def test_problems_are_one_line_and_leave_no_file(text, tmp_path):
    blank = tmp_path / "blank.txt"
    blank.write_text("\n \n")
    for inputs, options, reason in (
        ([tmp_path / "none.txt"], {}, r"none\.txt: cannot be read"),
        ([blank], {}, r"blank\.txt: no text to learn pieces from"),
        ([text], {"vocab_size": 4}, "--vocab-size 4: SentencePiece cannot train it"),
        ([text], {"vocab_size": 0}, "--vocab-size 0: expected 1 to 10000000"),
        ([text], {"vocab_size": 2_000_000_000}, "--vocab-size 2000000000: expected 1 to 10000000"),
        ([text], {"sentences": 100}, "--sentences 100: expected more than 100"),
        ([text], {"model_type": "x"}, "--model-type x: expected one of unigram, bpe"),
        ([text], {"character_coverage": 0.5}, "--character-coverage 0.5: expected 0.98 to 1"),
    ):
        with pytest.raises(TrueNegError, match=reason) as problem:
            train_sentencepiece(inputs, tmp_path / "a.model", **{"vocab_size": 45, **options})
        assert "\n" not in str(problem.value)
        assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "blank.txt"}
    with pytest.raises(TrueNegError, match=r"--output .*: cannot be written \(Not a directory\); choose another"):
        train_sentencepiece([text], blank / "a.model", vocab_size=45)
