"""Lines of text: files that are not plain text, byte order marks, broken UTF-8."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import pytest
from support.commands import REPOSITORY

from truneg_fairseq.data.text import Span, read_lines, read_span
from truneg_fairseq.errors import TrueNegError

NOT_TEXT = {
    "lines.txt": b'{"text": "The cat sat."}\n',
    "marked.txt": b'\xef\xbb\xbf{"text": "The cat sat."}\n',
    "table.csv": b"text,label\nThe cat sat.,1\n",
    "packed.gz": b"\x1f\x8b\x08",
    "binary.txt": b"a\0b\0",
}


@pytest.mark.parametrize("name", NOT_TEXT)
def test_what_is_no_plain_text_is_refused_wherever_text_is_read(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(NOT_TEXT[name])
    message = rf"{name}: is not plain text; make it so with data-bin-scripts/extract_corpus.py first"
    with pytest.raises(TrueNegError, match=message):
        list(read_lines(path))
    texts = runpy.run_path(str(REPOSITORY / "user_dir_examples" / "huggingface" / "train.py"))["texts"]
    with pytest.raises(TrueNegError, match=message):
        list(texts(SimpleNamespace(train_file=[str(path)], dataset_name=None), "train"))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfThe cat\r\nsat.\x0c\n")
    lines = [*read_span(Span(path, 0, path.stat().st_size))]
    assert list(read_lines(path)) == [line.text for line in lines] == ["The cat", "sat.\x0c"]
    assert sum(line.size for line in lines) == path.stat().st_size


def test_broken_utf8_is_named_by_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"The cat\n\xff\n")
    with pytest.raises(TrueNegError, match=r"a\.txt: line 2 is not UTF-8 \(invalid start byte at its byte 1\)"):
        list(read_lines(tmp_path / "a.txt"))
