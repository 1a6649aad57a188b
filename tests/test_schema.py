"""What strangers' JSON and npz files can be, and what a reader says of them."""

import contextlib
import dataclasses
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import ArrayType, convert, read_arrays, read_bytes, read_json


@dataclasses.dataclass
class Pair:
    first: int
    second: list[str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deep"),
        ("1" * 5_000, "out of range"),
        ('{"a": "\\ud800"}', "is not JSON in UTF-8"),
        ('{"a": NaN}', "is not JSON in UTF-8"),
        (b'{"a": "\xff"}', "is not JSON in UTF-8"),
        ("", "is empty"),
        ('{"a": 1', "is not JSON in UTF-8"),
    ],
)
def test_json_of_any_shape_is_one_line(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TrueNegError, match=message) as caught:
        read_json(path, Any, expected="something else")
    assert str(path) in str(caught.value) and "expected something else" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_types_and_names_are_checked(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"first": 1, "second": ["a"]}')
    assert read_json(path, Pair, expected="a pair") == Pair(1, ["a"])
    for content, message in (
        ('{"first": "1", "second": []}', "first: Expected int, got str"),
        ('{"first": true, "second": []}', "first: Expected int, got bool"),
        ('{"first": 1}', "missing required field second"),
        ("[1]", "it: Expected object, got array"),
    ):
        path.write_text(content)
        with pytest.raises(TrueNegError, match=message):
            read_json(path, Pair, expected="a pair")
    with pytest.raises(TrueNegError, match="has 'third'; expected only first, second"):
        convert({"first": 1, "second": [], "third": 2}, "x", Pair, expected="a pair")


def test_a_large_file_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([0] * 1_000))
    with pytest.raises(TrueNegError, match="is larger than 100 bytes"):
        read_json(path, Any, expected="little", limit=100)
    tracemalloc.start()
    try:
        read_json(path, Any, expected="little", limit=1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000  # not what the limit allows
    finally:
        tracemalloc.stop()


def test_the_limit_holds_for_a_pipe_too(tmp_path):
    for length, fits in ((99, True), (101, False)):
        reader, writer = os.pipe()
        os.write(writer, b"1" * length)
        os.close(writer)
        with contextlib.nullcontext() if fits else pytest.raises(TrueNegError, match="is larger than 100 bytes"):
            assert len(read_bytes(Path(f"/dev/fd/{reader}"), expected="digits", limit=100)) == length
        os.close(reader)


MEMBERS = {"a": ArrayType(np.int32), "t": ArrayType(str, 0)}


def archive(path, *, header: bytes | None = None, data: bytes = b"") -> None:
    np.savez_compressed(path, a=np.arange(4, dtype=np.int32), t=np.array("hello"))
    if header is not None:
        text = zipfile.ZipFile(path).read("t.npy")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
            made.writestr("t.npy", text)


def test_arrays_are_read(tmp_path):
    archive(tmp_path / "a.npz")
    arrays = read_arrays(tmp_path / "a.npz", MEMBERS, expected="arrays")
    assert arrays["a"].tolist() == [0, 1, 2, 3] and str(arrays["t"]) == "hello"


def header_of(shape: str, descr: str = "'<i4'") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (header_of("(1000000000000,)"), "has 16 bytes, its shape 4,000,000,000,000"),
        (header_of("(99999999999999999999999999,)"), "has 16 bytes, its shape"),
        (header_of("(-4,)"), "its shape"),
        (header_of("(2, 2)"), "of 2 dimensions, expected int32 of 1"),
        (header_of("(4,)", "'|O'"), "expected int32 of 1"),
        (header_of("(4,)", "'<f4'"), "expected int32 of 1"),
        (b"(" * 4_000, "cannot be read"),
        (b"{" + b" " * 60_000 + b"}", "cannot be read"),
    ],
)
def test_headers_are_compared_with_the_file(tmp_path, header, message):
    path = tmp_path / "a.npz"
    archive(path, header=header, data=np.arange(4, dtype="<i4").tobytes())
    tracemalloc.start()
    try:
        with pytest.raises(TrueNegError, match=message):
            read_arrays(path, MEMBERS, expected="arrays")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def patched(path, *places: tuple[bytes, int, bytes]) -> None:
    """Overwrites bytes at an offset behind every signature, in the local and in the central header."""
    content = bytearray(path.read_bytes())
    for signature, offset, value in places:
        start = content.find(signature)
        content[start + offset : start + offset + len(value)] = value
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (((b"PK\x01\x02", 10, b"\x5d\x00"),), "another method than deflate"),  # 93, zstandard
        (((b"PK\x01\x02", 10, b"\x63\x00"),), "another method than deflate"),  # 99, AES
        (((b"PK\x01\x02", 8, b"\x01\x00"),), "is encrypted"),
        (((b"PK\x01\x02", 24, struct.pack("<I", 0xFFFFFFF0)),), r"announce 4,29\d,"),
    ],
)
def test_members_that_are_no_plain_arrays(tmp_path, places, message):
    path = tmp_path / "a.npz"
    archive(path)
    patched(path, *places)
    with pytest.raises(TrueNegError, match=message):
        read_arrays(path, MEMBERS, expected="arrays")
