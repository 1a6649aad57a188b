"""A checkpoint's own embeddings as a source of the shell's tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import SourceOptions, SynonymTable, open_lexicon
from truneg_fairseq.synonyms.model import CheckpointEmbeddings
from truneg_fairseq.vocabulary import Vocabulary, read_symbols


@pytest.fixture
def checkpoint(binarized, tmp_path) -> Path:
    """Embeddings in which only picture, film and movie are near each other, and seven and table."""
    symbols = read_symbols(binarized)
    embeddings = torch.eye(len(symbols), 64)
    embeddings[symbols.index("film")] = embeddings[symbols.index("picture")] + 0.3 * torch.eye(64)[60]
    embeddings[symbols.index("movie")] = embeddings[symbols.index("picture")] - 0.3 * torch.eye(64)[60]
    embeddings[symbols.index("seven")] = embeddings[symbols.index("table")] + torch.eye(64)[61]
    embeddings[symbols.index("of")] = embeddings[symbols.index("the")]  # stop words
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": {"encoder.sentence_encoder.embed_tokens.weight": embeddings}}, path)
    return path


def both_ways(*listed: tuple[str, str]) -> set[tuple[str, str]]:
    return {*listed, *((right, left) for left, right in listed)}


FILMS = both_ways(("picture", "film"), ("picture", "movie"), ("film", "movie"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), FILMS | both_ways(("seven", "table"))),
        (("--threshold", 0.8), FILMS),
        (("--threshold", 0.95), both_ways(("picture", "film"), ("picture", "movie"))),
    ],
)
def test_a_table_is_built_from_a_checkpoint(flags, expected, binarized, checkpoint, tmp_path):
    output = tmp_path / "t.npz"
    common = ("--data", binarized, "--tokenization", "wordpiece", "--source", "model", "--checkpoint", checkpoint)
    main(list(map(str, ("synonyms", "build", *common, *flags, "--output", output))))
    table = SynonymTable.load(output)
    symbols = read_symbols(binarized)
    assert {(symbols[g], symbols[s]) for g, s in zip(table.gold, table.synonym, strict=True)} == expected
    assert table.source == "model"
    assert len(table.options["checkpoint_sha256"]) == 64


def test_a_checkpoint_of_another_dictionary_is_named(checkpoint):
    embeddings = torch.load(checkpoint, weights_only=True)["model"]["encoder.sentence_encoder.embed_tokens.weight"]
    other = Vocabulary.from_symbols(["<s>", "<pad>", "</s>", "<unk>", "car", "<mask>"], "wordpiece")
    wrong = CheckpointEmbeddings(checkpoint, embeddings, other)
    with pytest.raises(TrueNegError, match=f"{checkpoint}: has embeddings of .* tokens, but the dictionary has 6"):
        open_lexicon("model", SourceOptions(checkpoint=wrong))
