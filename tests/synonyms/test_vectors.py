"""Files of word vectors, whole and broken, and the neighbours found in them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import logging
import lzma
from pathlib import Path

import numpy as np
import pytest
from support.commands import shared_file

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import SourceOptions, build_table
from truneg_fairseq.synonyms import vectors as vector_files
from truneg_fairseq.synonyms.vectors import EmbeddingLexicon
from truneg_fairseq.vocabulary import Vocabulary

WORDS = [f"w{number}" for number in range(40)]
DIMENSIONS = 6
TEXTS = ("word2vec-text-tabs", "word2vec-text", "word2vec-text-spaced")
FORMATS = ("glove", *TEXTS)
VECTORS = np.random.default_rng(1).standard_normal((len(WORDS), DIMENSIONS)).astype(np.float32)


def content(kind: str, words: list[str] = WORDS, vectors: np.ndarray = VECTORS) -> bytes:
    rows = list(zip(words, vectors, strict=True))
    header = f"{len(rows)} {vectors.shape[1]}\n".encode()
    end = " \n" if kind.endswith("spaced") else "\n"  # the original tool leaves a space before the newline
    text = "".join(f"{word} {' '.join(f'{value:.6f}' for value in row)}{end}" for word, row in rows)
    text = text.replace(" ", "\t" if kind.endswith("tabs") else " ")
    return text.encode() if kind == "glove" else header + text.encode()


def open_file(path: Path, data: bytes | str, **settings) -> EmbeddingLexicon:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return EmbeddingLexicon(path, **settings)


def nearest(query: int, count: int) -> list[str]:
    cosines = VECTORS @ VECTORS[query] / np.linalg.norm(VECTORS, axis=1)
    cosines[query] = -np.inf
    return [WORDS[index] for index in np.argsort(-cosines)[:count]]


@pytest.mark.parametrize(
    ("kind", "mark", "pack"),
    [*zip(FORMATS, [b"", codecs.BOM_UTF8] * 2, [bytes, gzip.compress, bz2.compress, lzma.compress], strict=True)],
)
def test_every_format_gives_the_same_neighbours(tmp_path, kind, mark, pack, monkeypatch):
    monkeypatch.setattr(vector_files, "BLOCK", 7)
    lexicon = open_file(tmp_path / "vectors", pack(mark + content(kind)))
    for query in (0, 13, 39):
        assert lexicon.synonyms(WORDS[query]) == [WORDS[query], *nearest(query, 10)]
    assert lexicon.options["dimensions"] == DIMENSIONS


def test_of_equal_cosines_the_earlier_one_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_files, "_SCORES_AT_ONCE", 1500)
    monkeypatch.setattr(vector_files, "BLOCK", 90)
    vectors = np.random.default_rng(2).integers(-2, 3, (700, 3)).astype(np.float32)
    vectors = vectors[np.abs(vectors).max(axis=1) > 0]
    words = [f"w{number}" for number in range(len(vectors))]
    for count, threshold in ((4, None), (4, 0.95), (60, 0.5)):
        data = content("glove", words, vectors)
        lexicon = open_file(tmp_path / "v", data, neighbours=count, threshold=threshold)
        lexicon.prepare(words[::7])
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for query in range(0, len(words), 7):
            scores = unit @ unit[query]
            order = [each for each in np.lexsort((np.arange(len(words)), -np.round(scores, 5))) if each != query]
            expected = [each for each in order if threshold is None or scores[each] > threshold - 1e-6][:count]
            found = [int(name[1:]) for name in lexicon.synonyms(words[query])[1:]]
            assert len(found) == len(set(found)) == len(expected)
            np.testing.assert_allclose(scores[found], scores[expected], atol=1e-6)
    same = open_file(tmp_path / "v", "a 1 0\nb 0 1\nc 1 0\nd 1 0\ne 1 0\n", neighbours=2)
    assert same.synonyms("a") == ["a", "c", "d"]


LINES = ["a 1 2 3", "b 1 2 4", "c 3 2 1", "d -1 0 1"]


@pytest.mark.parametrize("line", ["c 3 2", "c 3 2 x", "c 3 nan 1", "c 3 inf 1", "c"])
@pytest.mark.parametrize("header", [False, True])
def test_a_broken_line_is_named(tmp_path, line, header):
    lines = [*(["4 3"] if header else []), *LINES[:2], line, LINES[3]]
    lexicon = open_file(tmp_path / "v", "\n".join(lines) + "\n")
    expected = rf"v: line {lines.index(line) + 1} \('c'\): expected a word and 3 finite numbers; the file is damaged"
    with pytest.raises(TrueNegError, match=expected):
        lexicon.synonyms("a")


def test_any_number_of_blanks_separates(tmp_path):
    text = "".join(f" {line.replace(' ', chr(9) + ' ', 1)}\n" for line in [*LINES, ". . 0 0 -1"])
    assert open_file(tmp_path / "v", text).synonyms("a") == ["a", "b", "c", "d", "._."]
    assert open_file(tmp_path / "v", f"5 3\n{text}".replace(" ", "  ")).synonyms("b") == ["b", "a", "c", "d", "._."]


@pytest.mark.parametrize("kind", FORMATS)
def test_words_with_blanks_are_words(tmp_path, kind):
    words = [*WORDS[:34], ". .", "area 51", "windows 7", "0 0", "new york 2000", "at name@domain.com"]
    lexicon = open_file(tmp_path / "v", content(kind, words), neighbours=39)
    assert set(lexicon.synonyms("w1")) == {word.replace(" ", "_") for word in words}
    assert lexicon.synonyms("area 51")[1] == nearest(35, 1)[0]


def test_the_exact_spelling_comes_first(tmp_path):
    text = "Polish 1 0 0\nWarsaw 1 0.1 0\nshine 0 1 0\npolish 0 1 0.1\nLondon 0 0 1\nParis 0 0.1 1\n"
    text += "CAT -1 0 0\ncat 0 -1 0\n"
    lexicon = open_file(tmp_path / "v", text, neighbours=1)
    found = {word: lexicon.synonyms(word) for word in ("Polish", "polish", "POLISH", "london", "Cat", "dog")}
    assert found == {
        **{"Polish": ["Polish", "Warsaw"], "polish": ["polish", "shine"], "POLISH": ["polish", "shine"]},
        **{"london": ["London", "Paris"], "Cat": ["cat", found["Cat"][1]], "dog": []},
    }
    uncased = Vocabulary.from_symbols(["<s>", "london", "paris"], "words")
    table = build_table(lexicon, uncased)
    assert table.synonyms(1).tolist() == [2]


def test_what_is_left_out_is_counted(tmp_path, caplog):
    data = "\n".join([*LINES, "a 9 0 0", "zero 0 0 0", "b 1 1 1"]).encode() + b"\n\xe9t\xe9 1 2 3\n"
    lexicon = open_file(tmp_path / "v", data)
    with caplog.at_level(logging.WARNING):
        assert lexicon.synonyms("a") == ["a", "b", "c", "d"], "its first vector counts, and nothing else is a neighbour"
    assert "left out 4 of its 8 vectors: repeated words" in caplog.text
    assert lexicon.synonyms("zero") == []


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"just some prose here\n", b"\x89PNG\r\n\x1a\n", b"1 5\n", b"2 4\nthe \0\0\x80?\0\0\x80?\0\0\x80?"),
        *(b"9" * 5001 + b" 2\na 1 2\n", b"1 " + b"9" * 5001 + b"\na 1 2\n"),  # Python's int() refuses so many digits
    ],
    ids=range(7),
)
def test_what_is_no_vector_file_is_one_line(tmp_path, data):
    with pytest.raises(TrueNegError, match=r"v: (line 1 is .*; expected Glo|.* expected a word |the header announces)"):
        open_file(tmp_path / "v", data).synonyms("a")


@pytest.mark.parametrize("announced", [39, 400])
def test_a_header_with_a_wrong_count_is_one_line(tmp_path, announced):
    lexicon = open_file(tmp_path / "v", content(TEXTS[0]).replace(b"40 6", f"{announced} 6".encode(), 1))
    with pytest.raises(TrueNegError, match=rf"the header announces {announced} vectors of 6 dimensions, found"):
        lexicon.synonyms("w1")


def test_real_glove_vectors_make_a_table(wordnet):
    path = shared_file("glove/glove.6B.50d.top9162.txt")
    symbols = ["<s>", "cold", "warm", "cool", "temperatures", "the", "of", "qqq"]
    vocabulary = Vocabulary.from_symbols(symbols, "words")
    plain = build_table("embeddings", vocabulary, SourceOptions(vectors=path))
    assert [symbols[token] for token in plain.synonyms(1)] == ["warm", "cool", "temperatures"]
    assert not len(plain.synonyms(symbols.index("the"))), "a stop word"
    assert plain.known_words == len(symbols) - 2
    cleaned = build_table("embeddings-antonyms", vocabulary, SourceOptions(vectors=path))
    assert [symbols[token] for token in cleaned.synonyms(1)] == ["cool", "temperatures"]
