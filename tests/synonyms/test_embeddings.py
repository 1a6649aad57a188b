"""Files of word vectors in every format, whole and broken, and the neighbours found in them."""

from __future__ import annotations

import codecs
import gzip
import logging
from pathlib import Path

import numpy as np
import pytest
from support.commands import shared_file
from truneg_fairseq.synonyms.neighbours import NearestNeighbours, unit_rows

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import LexiconSettings, build_table, embeddings, neighbours, open_lexicon
from truneg_fairseq.synonyms.vectors import VectorFile
from truneg_fairseq.vocabulary import Vocabulary

WORDS = [f"w{number}" for number in range(40)]
DIMENSIONS = 6
FORMATS = (
    "glove",
    "word2vec-text-tabs",
    "word2vec-text",
    "word2vec-text-spaced",
    "word2vec-binary",
    "word2vec-binary-newlines",
)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((len(WORDS), DIMENSIONS)).astype(np.float32)


def content(kind: str, vectors: np.ndarray, words: list[str] | None = None) -> bytes:
    rows = list(zip(words or WORDS, vectors, strict=True))
    header = f"{len(rows)} {vectors.shape[1]}\n".encode()
    if kind.startswith("word2vec-binary"):
        end = b"\n" if kind.endswith("newlines") else b""
        return header + b"".join(word.encode() + b" " + row.astype("<f4").tobytes() + end for word, row in rows)
    end = " \n" if kind.endswith("spaced") else "\n"  # the original tool leaves a space before the newline
    text = "".join(f"{word} {' '.join(f'{value:.6f}' for value in row)}{end}" for word, row in rows).encode()
    if kind.endswith("tabs"):
        text = text.replace(b" ", b"\t")
    return text if kind == "glove" else header + text


def open_file(path: Path, data: bytes | str, **settings):
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_lexicon("embeddings", LexiconSettings(vectors=path, **settings))


def nearest(vectors: np.ndarray, query: int, count: int) -> list[str]:
    cosines = vectors @ vectors[query] / np.linalg.norm(vectors, axis=1)
    cosines[query] = -np.inf
    return [WORDS[index] for index in np.argsort(-cosines)[:count]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_neighbours(tmp_path, vectors, kind, packed, monkeypatch):
    monkeypatch.setattr(embeddings, "_BLOCK", 7)
    data = content(kind, vectors)
    lexicon = open_file(tmp_path / "vectors", gzip.compress(data) if packed else data)
    for query in (0, 13, 39):
        assert lexicon.synonyms(WORDS[query]) == [WORDS[query], *nearest(vectors, query, 10)]
    assert lexicon.options["dimensions"] == DIMENSIONS


def test_many_words_at_once_get_what_single_words_get(tmp_path, vectors):
    one_by_one = open_file(tmp_path / "a", content("glove", vectors), neighbours=3)
    at_once = open_file(tmp_path / "b", content("glove", vectors), neighbours=3)
    at_once.prepare([*WORDS, "absent"])
    (tmp_path / "b").unlink()  # nothing is read any more
    assert [at_once.synonyms(word) for word in WORDS] == [one_by_one.synonyms(word) for word in WORDS]
    assert at_once.synonyms("absent") == []
    assert len(at_once.synonyms("w0")) == 4


def test_a_threshold_leaves_the_near_ones(tmp_path, vectors):
    lexicon = open_file(tmp_path / "v", content("glove", vectors), threshold=0.5)
    unit = unit_rows(vectors)
    cosines = unit @ unit[0]
    expected = [word for word in nearest(vectors, 0, 10) if cosines[WORDS.index(word)] >= 0.5]
    assert 0 < len(expected) < 10
    assert lexicon.synonyms("w0") == ["w0", *expected]
    assert open_file(tmp_path / "v", content("glove", vectors), threshold=1.0).synonyms("w0") == ["w0"], "still known"


def test_a_capitalised_word_is_looked_up_in_lower_case_too(tmp_path, vectors):
    words = ["paris", "London", "london", *WORDS[3:]]
    lexicon = open_file(tmp_path / "v", content("glove", vectors, words), neighbours=2)
    assert lexicon.synonyms("Paris")[1:] == lexicon.synonyms("paris")[1:] != []
    assert lexicon.synonyms("London") != lexicon.synonyms("london")


def test_neighbours_are_exact_whatever_the_blocks(monkeypatch):
    monkeypatch.setattr(neighbours, "_QUERIES_AT_ONCE", 16)
    monkeypatch.setattr(neighbours, "_FIRST_CHUNK", 5)
    rng = np.random.default_rng(2)
    # Small integers, so that many cosines are equal: of equals the earlier one counts.
    vectors = unit_rows(rng.integers(-2, 3, (700, 3)).astype(np.float32))
    own = np.full(len(vectors), -1)
    chosen = rng.permutation(len(vectors))[:50]
    own[chosen] = np.arange(len(chosen))
    for count, threshold in ((4, None), (4, 0.95), (60, 0.5)):
        search = NearestNeighbours(vectors[chosen], count, threshold)
        for start in range(0, len(vectors), 90):
            search.add(vectors[start : start + 90], own[start : start + 90])
        indices, cosines = search.result()
        scores = vectors[chosen] @ vectors.T
        for query, place in enumerate(chosen):
            order = np.lexsort((np.arange(len(vectors)), -np.round(scores[query], 5)))
            order = order[order != place]
            expected = [i for i in order if threshold is None or scores[query, i] >= threshold][:count]
            found = indices[query][indices[query] >= 0]
            assert len(found) == len(expected)
            np.testing.assert_allclose(cosines[query][: len(found)], scores[query, expected], atol=1e-6)
            assert place not in found
            assert len(set(found)) == len(found)
    exact = NearestNeighbours(np.eye(2, dtype=np.float32)[:1], 2)
    exact.add(np.array([[0, 1], [1, 0], [1, 0], [1, 0]], dtype=np.float32), np.full(4, -1))
    assert exact.result()[0].tolist() == [[1, 2]]


def test_fewer_vectors_than_neighbours(tmp_path, vectors):
    lexicon = open_file(tmp_path / "v", content("glove", vectors[:3], WORDS[:3]))
    assert sorted(lexicon.synonyms("w1")) == ["w0", "w1", "w2"]


LINES = ["a 1 2 3", "b 1 2 4", "c 3 2 1", "d -1 0 1"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("c 3 2", r"line 3 \('c'\) has 2 values, expected 3 as in line 1"),
        ("c 3 2 1 0", r"line 3 \('c'\) has 4 values, expected 3"),
        ("c 3 2 x", r"line 3 \('c'\) has a value that is not numeric; expected 3 numbers"),
        ("c 3 nan 1", r"line 3 \('c'\) has a value that is not finite"),
        ("c 3 inf 1", r"line 3 \('c'\) has a value that is not finite"),
        ("c", r"line 3 \('c'\) has 0 values"),
    ],
)
@pytest.mark.parametrize("header", [False, True])
def test_a_broken_line_is_named(tmp_path, line, message, header):
    lines = [*LINES[:2], line, LINES[3]]
    if header:
        lines = ["4 3", *lines]
        message = message.replace("line 3", "line 4").replace("in line 1", "in the header")
    lexicon = open_file(tmp_path / "v", "\n".join(lines) + "\n")
    with pytest.raises(TrueNegError, match=message) as caught:
        lexicon.synonyms("a")
    assert str(caught.value).startswith(str(tmp_path / "v"))
    assert "\n" not in str(caught.value)


def test_a_broken_first_line_below_a_header_is_named(tmp_path):
    lexicon = open_file(tmp_path / "v", "4 3\na 1 x 3\n" + "\n".join(LINES[1:]))
    with pytest.raises(TrueNegError, match=r"line 2 \('a'\) has a value that is not numeric"):
        lexicon.synonyms("a")


def test_words_with_spaces_are_words(tmp_path):
    lexicon = open_file(tmp_path / "v", "\n".join([*LINES, ". . 1 2 3.1", "at name@domain.com 3 2 1"]))
    assert lexicon.synonyms("a")[:2] == ["a", "._."]
    assert "at_name@domain.com" in lexicon.synonyms("c")


def test_what_is_left_out_is_counted(tmp_path, caplog):
    data = "\n".join([*LINES, "a 9 0 0", "zero 0 0 0", "b 1 1 1"]).encode() + b"\n\xe9t\xe9 1 2 3\n"
    lexicon = open_file(tmp_path / "v", data)
    with caplog.at_level(logging.WARNING):
        assert lexicon.synonyms("a") == ["a", "b", "c", "d"], "its first vector counts, and nothing else is a neighbour"
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "left out 1 of its 8 vectors: their words are not UTF-8",
        "left out 2 of its 8 vectors: their words are repeated (the first vector counts)",
        "left out 1 of its 8 vectors: they are zero",
    ]
    assert lexicon.synonyms("zero") == []


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path, vectors, kind, pack):
    data = content(kind, vectors)
    found = open_file(tmp_path / "m", pack(codecs.BOM_UTF8 + data)).synonyms("w0")
    assert found == open_file(tmp_path / "v", data).synonyms("w0") != []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"v: is empty; expected GloVe text"),
        (b"\n\n", "its first line is empty"),
        (b"just some prose here\n", "line 1 is 'just some prose here"),
        ("a 1 2\n".encode("utf-16"), "line 1 is"),
        (b"0 5\n", "line 1 announces 0 vectors of 5 dimensions"),
        (b"5 0\n", "line 1 announces 5 vectors of 0 dimensions"),
        (b"5 99999999999\na 1", "line 1 announces 5 vectors of 99999999999 dimensions; expected 1 to"),
        (b"5 " + b"9" * 5_000 + b"\n", "line 1 announces '5 9+', numbers without sense"),
        (b"\x89PNG\r\n\x1a\n", "line 1 is"),
    ],
)
def test_what_is_no_vector_file_is_one_line(tmp_path, data, message):
    with pytest.raises(TrueNegError, match=message) as caught:
        open_file(tmp_path / "v", data)
    assert "\n" not in str(caught.value)


def test_no_file_is_one_line(tmp_path):
    with pytest.raises(TrueNegError, match=r"none: cannot be read \(No such file"):
        open_lexicon("embeddings", LexiconSettings(vectors=tmp_path / "none"))


def test_a_truncated_gzip_is_one_line(tmp_path, vectors):
    data = gzip.compress(content("glove", np.tile(vectors, (200, 1)), [f"x{i}" for i in range(8000)]))
    with pytest.raises(TrueNegError, match=r"v\.gz: its gzip stream is truncated or damaged"):
        open_file(tmp_path / "v.gz", data[: len(data) // 2]).synonyms("x1")


@pytest.mark.parametrize("kind", [k for k in FORMATS if k != "glove"])
@pytest.mark.parametrize("announced", [39, 41, 400])
def test_a_header_with_a_wrong_count_is_one_line(tmp_path, vectors, kind, announced):
    data = content(kind, vectors).replace(b"40 6", f"{announced} 6".encode(), 1)
    lexicon = open_file(tmp_path / "v", data)
    with pytest.raises(TrueNegError, match=rf"the header announces {announced} vectors of 6 dimensions, found"):
        lexicon.synonyms("w1")


@pytest.mark.parametrize("dimensions", [2, 5, 7, 60, 500])
def test_a_binary_header_with_wrong_dimensions_is_one_line(tmp_path, vectors, dimensions):
    data = content("word2vec-binary", vectors).replace(b"40 6", f"40 {dimensions}".encode(), 1)
    lexicon = open_file(tmp_path / "v", data)
    with pytest.raises(TrueNegError) as caught:
        lexicon.synonyms("w1")
    assert f"of {dimensions} dimensions" in str(caught.value) or "not finite" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_binary_file_without_words_is_one_line(tmp_path):
    lexicon = open_file(tmp_path / "v", b"9 9\n" + b"\x01" * (1 << 23))
    with pytest.raises(TrueNegError, match="vector 1 begins with no word"):
        lexicon.synonyms("w1")


@pytest.mark.parametrize("missing", [3, 25, 200])
def test_a_truncated_binary_file_is_one_line(tmp_path, vectors, missing):
    lexicon = open_file(tmp_path / "v", content("word2vec-binary", vectors)[:-missing])
    with pytest.raises(TrueNegError, match="truncated"):
        lexicon.synonyms("w1")


def test_a_binary_value_that_is_not_finite_is_named(tmp_path, vectors):
    broken = vectors.copy()
    broken[4, 2] = np.nan
    lexicon = open_file(tmp_path / "v", content("word2vec-binary", broken))
    with pytest.raises(TrueNegError, match=r"vector 5 \('w4'\) has a value that is not finite"):
        lexicon.synonyms("w1")


def test_memory_does_not_grow_with_the_file(tmp_path, vectors):
    """Records are made one by one: the first comes before the end of a file is read, broken or not."""
    path = tmp_path / "v"
    path.write_bytes(content("glove", vectors) + b"broken\n")
    records = VectorFile.open(path).records()
    assert next(records).word == b"w0"


def test_real_glove_vectors_make_a_table(wordnet):
    path = shared_file("glove/glove.6B.50d.top9162.txt")
    symbols = ["<s>", "cold", "warm", "cool", "temperatures", "the", "of", "qqq"]
    vocabulary = Vocabulary.from_symbols(symbols, "words")
    plain = build_table(open_lexicon("embeddings", LexiconSettings(vectors=path)), vocabulary)
    assert [symbols[token] for token in plain.synonyms(1)] == ["warm", "cool", "temperatures"]
    assert not len(plain.synonyms(symbols.index("the"))), "a stop word"
    assert plain.known_words == len(symbols) - 2
    cleaned = build_table(open_lexicon("embeddings-antonyms", LexiconSettings(vectors=path)), vocabulary)
    assert [symbols[token] for token in cleaned.synonyms(1)] == ["cool", "temperatures"]
