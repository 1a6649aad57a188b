"""The one place where JSON and npz files are read: types and sizes are checked before anything is used.

A file that somebody else made can be of any shape, such as arrays whose headers announce terabytes. What the readers
here return has the asked type, and takes memory in proportion to the file.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from .errors import TrueNegError, reason, unreadable

LARGEST_JSON = 32 << 20
"""Bytes of a JSON file, unless its reader expects more; the longest tokenizers have 20 MB."""

# Deflate makes a run of equal bytes 1,032 times shorter; arrays of pairs and of tokens become 2 to 20 times shorter.
_LARGEST_RATIO = 200
_SMALL_ARCHIVE = 64 << 20  # bytes unpacked, of which any ratio is taken
_LARGEST_ARCHIVE = 4 << 30  # bytes unpacked
_ENCRYPTED = 1
_LARGEST_HEADER = 1 << 12  # bytes of an array's description; numpy writes 118
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_LONGEST_REASON = 200

T = TypeVar("T")


class ArrayType(NamedTuple):
    """What a member of an npz must be."""

    dtype: DTypeLike  # its type; ``str`` is of any length
    ndim: int = 1  # its dimensions


def read_json(path: Path, kind: type[T], *, expected: str, limit: int = LARGEST_JSON) -> T:
    """A JSON file (UTF-8, at most ``limit`` bytes) as a value of one type: ``dict[str, Any]``, a dataclass, or anything
    else that msgspec can decode to. ``expected`` is what the file should be, for the message.
    """
    return parse_json(read_bytes(path, expected=expected, limit=limit), str(path), kind, expected=expected)


def read_bytes(path: Path, *, expected: str, limit: int = LARGEST_JSON) -> bytes:
    """A file's bytes."""
    try:
        with path.open("rb") as stream:
            facts = os.fstat(stream.fileno())
            size = facts.st_size if stat.S_ISREG(facts.st_mode) else limit  # a pipe has 0
            content = stream.read(min(limit, size) + 1)  # not limit + 1: memory is taken for what is asked
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {expected}") from None
    if len(content) > limit:
        raise TrueNegError(f"{path}: is larger than {limit:,} bytes; expected {expected}")
    return content


def read_unpacked(path: Path, *, expected: str, limit: int) -> bytes:
    """A file's bytes, unpacked where it is gzipped; at most ``limit`` of them."""
    raw = read_bytes(path, expected=expected, limit=limit)
    try:
        text = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(limit + 1) if raw.startswith(_GZIP) else raw
    except (OSError, EOFError, zlib.error) as error:
        raise TrueNegError(f"{path}: cannot be unpacked ({_short(error)}); expected {expected}") from None
    if len(text) > limit:
        raise TrueNegError(f"{path}: is longer than {limit:,} bytes; expected {expected}")
    return text


def parse_json(content: bytes | str, where: str, kind: type[T], *, expected: str) -> T:
    """JSON as a value of one type (:func:`read_json`); bytes are UTF-8 and may begin with a byte order mark.

    ``where`` is the file, and the line in it, for the message.
    """
    if not content.strip():
        raise TrueNegError(f"{where}: is empty; expected {expected}")
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content.removeprefix(_BOM)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _unfit(where, error, expected) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TrueNegError(f"{where}: is not JSON in UTF-8 ({_short(error)}); expected {expected}") from None
    except RecursionError:
        raise TrueNegError(f"{where}: is nested too deep; expected {expected}") from None


def convert(content: Mapping[str, Any], where: str, kind: type[T], *, expected: str) -> T:
    """A parsed object as a dataclass, or a :class:`msgspec.Struct` that forbids unknown fields."""
    if is_dataclass(kind):
        names = {part.name for part in fields(kind)}
        if unknown := sorted(content.keys() - names):
            raise TrueNegError(f"{where}: has {unknown[0]!r}; expected only {', '.join(sorted(names))}")

    def path_of(kind: type[Any], value: Any) -> Any:  # what msgspec does not know itself
        if kind is Path and isinstance(value, str) and value and "\0" not in value:
            return Path(value)
        raise ValueError("expected the name of a file or folder")

    try:
        return msgspec.convert(content, kind, dec_hook=path_of)
    except msgspec.ValidationError as error:
        raise _unfit(where, error, expected) from None


def read_arrays(
    path: Path,
    members: Mapping[str, ArrayType],
    optional: Mapping[str, ArrayType] = {},
    *,
    expected: str,
) -> dict[str, NDArray[Any]]:
    """The arrays of an npz, which must have these, may have the optional ones, and has no others.

    Nothing in it is unpickled, and headers are compared with the file before memory is taken.
    """
    try:
        with path.open("rb") as file:
            return _read_arrays(file, members, optional)
    except Exception as error:  # other files fail in many ways: zipfile, zlib and numpy have errors of their own
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {expected}") from None


def _read_arrays(
    file: IO[bytes], members: Mapping[str, ArrayType], optional: Mapping[str, ArrayType]
) -> dict[str, NDArray[Any]]:
    if file.read(4) != b"PK\x03\x04":
        raise ValueError("it is not a zip archive")
    with zipfile.ZipFile(file) as archive:
        infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        members = {**members, **{name: kind for name, kind in optional.items() if name in infos}}
        if sorted(infos) != sorted(members) or len(infos) < len(archive.infolist()):
            raise ValueError(f"it holds {sorted(infos)[:10]}, not {sorted(members)}")
        unpacked = sum(info.file_size for info in infos.values())
        packed = sum(info.compress_size for info in infos.values())
        if unpacked > min(_LARGEST_ARCHIVE, max(_SMALL_ARCHIVE, packed * _LARGEST_RATIO)):
            raise ValueError(f"its {packed:,} bytes announce {unpacked:,}")
        return {name: _read_array(archive, infos[name], kind, name) for name, kind in members.items()}


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kind: ArrayType, name: str) -> NDArray[Any]:
    if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is encrypted or compressed by another method than deflate")
    with archive.open(info) as stream:
        if npy.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} has another version of numpy's format than 1.0")
        shape, _, dtype = npy.read_array_header_1_0(stream, max_header_size=_LARGEST_HEADER)
        header = stream.tell()
    found = np.dtype(str) if dtype.kind == "U" else dtype
    if found != np.dtype(kind.dtype) or len(shape) != kind.ndim:
        raise ValueError(
            f"{name} is {dtype} of {len(shape)} dimensions, expected {np.dtype(kind.dtype)} of {kind.ndim}"
        )
    announced = math.prod(map(int, shape), start=dtype.itemsize)  # of Python's integers: numpy's would overflow
    if header + announced != info.file_size or min(shape, default=0) < 0:
        raise ValueError(f"{name} has {info.file_size - header:,} bytes, its shape {announced:,}")
    with archive.open(info) as stream:
        array: NDArray[Any] = npy.read_array(stream, allow_pickle=False, max_header_size=_LARGEST_HEADER)
        if stream.read(1):  # the checksum is compared at the end
            raise ValueError(f"{name} goes on behind its end")
    return array


def _unfit(where: str, error: msgspec.ValidationError, expected: str) -> TrueNegError:
    what, _, place = str(error).replace("`", "").replace("$.", "").partition(" - at ")
    return TrueNegError(f"{where}: {place or 'it'}: {what}; expected {expected}")


def _short(error: BaseException) -> str:
    return reason(error)[:_LONGEST_REASON]
