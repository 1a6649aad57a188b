"""Files: writing them so that a half-written one is never seen, reading JSON and npz, and checking paths.

A JSON file that somebody else made can be of any shape; what the readers here return has the asked type.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import glob
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import re
import secrets
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, TypeVar

import msgspec
import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from .errors import TrueNegError, reading, reason

T = TypeVar("T")

VERSION: str = sys.modules[__name__.partition(".")[0]].__version__
"""Of this package, which may make other things of the same input in another version."""

CITATION = """\
@inproceedings{zhang2023true,
  title = {Language Model Pre-training on True Negatives},
  author = {Zhang, Zhuosheng and Zhao, Hai and Utiyama, Masao and Sumita, Eiichiro},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023},
  url = {https://arxiv.org/abs/2212.00460}
}"""
"""For the cards of models."""

# --- Writing ---

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DEVICES = Path("/dev")  # a link from here, such as stdout, names an open file, which must not be replaced
_LOCK = "lock"  # in a folder that is being filled
ADAPTER = "adapter_config.json"  # what a folder of PEFT has; its weights are those of another model and a few more


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what goes wrong while a file is written into one line; errors of other files stay as they are."""
    try:
        yield
    except Exception as caught:
        if (error := _of_the_disk(caught)) is None:
            raise
        names = (path.name.lstrip("."), path.resolve().name.lstrip("."))  # a part of it has a dot before
        other = error.filename and not Path(os.fsdecode(error.filename)).name.lstrip(".").startswith(names)
        if other or (error.filename is None and error.errno not in _FULL):
            raise
        hint = "free space there, or choose another folder" if error.errno in _FULL else "choose another folder"
        raise TrueNegError(f"{path}: cannot be written ({reason(error)}); {hint}") from None


def _of_the_disk(error: Exception) -> OSError | None:
    """An error of the disk, be it behind torch's own, or told by number as safetensors and tokenizers do."""
    if isinstance(error, OSError | TrueNegError):
        return error if isinstance(error, OSError) else None
    if isinstance(error, RuntimeError) and isinstance(error.__context__, OSError):
        return error.__context__
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def is_new(folder: Path) -> bool:
    """Whether nothing is there yet, or an empty folder that a finished one can be renamed to."""
    return not folder.exists() or (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()))


@contextlib.contextmanager
def replacing_file(path: Path, *, durable: bool = False, follow_link: bool = True) -> Iterator[BinaryIO]:
    """A stream that becomes the file ``path`` when the block ends well, and leaves nothing when it fails.

    What is no file, as ``/dev/stdout`` or a pipe, is written directly. ``durable`` waits until the disk has the file,
    so that it survives a crash of the machine. Of a symbolic link the file that it names is replaced, or, without
    ``follow_link``, the link.
    """
    target = path.resolve() if follow_link else path.parent.resolve() / path.name
    if path.absolute().parent == _DEVICES or (target.exists() and not target.is_file()):
        with writing(path), path.open("wb") as stream:
            yield stream
        return
    # Machines that share a folder may have the same process numbers; "x" follows no link that lies there.
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    with contextlib.ExitStack() as stack, writing(path):
        stack.callback(part.unlink, missing_ok=True)
        with part.open("xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        part.replace(target)
        if durable:
            folder = os.open(target.parent, os.O_RDONLY)
            stack.callback(os.close, folder)
            with contextlib.suppress(OSError):  # some network file systems cannot; the file's own bytes are safe
                os.fsync(folder)


@contextlib.contextmanager
def replacing_text(path: Path) -> Iterator[TextIO]:
    """:func:`replacing_file` for UTF-8 text."""
    with replacing_file(path) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
        yield text


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes the name ``folder`` when the block ends well, and leaves nothing when it fails.

    What a killed process left of an earlier one is removed; a living one holds the lock in its own.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held, writing(folder):
        begun = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-", suffix=".new"))
        staging = begun.with_suffix(".part")
        held.callback(shutil.rmtree, staging, ignore_errors=True)
        with contextlib.suppress(OSError, NotImplementedError):  # a file system without locks
            held.enter_context(FileLock(begun / _LOCK, timeout=0))
        begun.rename(staging)  # others look for this name, and find it locked from the first moment on
        for left in folder.parent.glob(f".{glob.escape(folder.name)}-????????.part"):
            with contextlib.suppress(OSError, NotImplementedError), FileLock(left / _LOCK, timeout=0):
                shutil.rmtree(left)
        filled = staging / folder.name
        filled.mkdir()
        yield filled
        filled.rename(folder)


@contextlib.contextmanager
def hold_lock(lock: Path, held_elsewhere: str) -> Iterator[None]:
    """Holds a lock file that ends with this process; the text is the error where another process holds it."""
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise TrueNegError(f"{held_elsewhere}; wait for its end, or end it and start again") from None


# --- Reading ---

LARGEST_JSON = 32 << 20
"""Bytes of a JSON file, unless its reader expects more; the longest tokenizers have 20 MB."""

_BOM = b"\xef\xbb\xbf"
_SAMPLE = 1 << 20  # bytes


_PACKED: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
"""How to read what begins so, whatever its name."""


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder and of those below it whose names fit, also behind links; hidden ones are passed over."""
    names = glob.glob(f"**/{pattern}", root_dir=folder, recursive=True)  # noqa: PTH207, Path.rglob follows no link
    return sorted(path for name in names if not (path := folder / name).is_dir())


def refuse_adapter(folder: Path | str, flag: str = "") -> None:
    """Refuses a folder, or a name that transformers' cache has, with an adapter (PEFT's).

    transformers would add it to the model that it names, or to the one beside it, without a word.
    """
    from transformers.utils import find_adapter_config_file

    if Path(folder, ADAPTER).exists() or find_adapter_config_file(str(folder), local_files_only=True):
        raise TrueNegError(
            f"{flag}{folder}: has an adapter ({ADAPTER}); expected a whole model alone: merge the adapter (PEFT's "
            "merge_and_unload, then save_pretrained to another folder), or move the file elsewhere"
        )


def file_digest(path: Path) -> str:
    """The SHA-256 (hexadecimal) of a file's bytes."""
    if path.is_fifo():  # what was read of it before is gone, and would be left out
        raise TrueNegError(f"{path}: is a pipe, which can be read only once; expected a file")
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sampled_fingerprint(path: Path) -> str:
    """SHA-256 (hex) of a file's size and of its first, middle and last MiB: of 20 GB in milliseconds.

    It tells another file, a shortened one or another order; a change elsewhere in a file of more than 3 MiB it misses.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as stream:
        for start in sorted({0, max(0, size // 2 - _SAMPLE // 2), max(0, size - _SAMPLE)}):
            stream.seek(start)
            digest.update(stream.read(_SAMPLE))
    return digest.hexdigest()


def read_bytes(path: Path, *, expected: str, limit: int = LARGEST_JSON) -> bytes:
    """A file's bytes, unpacked where it is gzip, bzip2 or xz: then at most ``limit`` of them. ``expected`` is what the
    file should be, for the message.
    """
    with reading(path, expected), path.open("rb") as raw:
        beginning = raw.peek(8)
        unpack = next((each for magic, each in _PACKED.items() if beginning.startswith(magic)), None)
        try:
            content: bytes = (raw if unpack is None else unpack(raw)).read(limit + 1)
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise TrueNegError(f"{path}: is truncated or damaged ({reason(error)}); get the file again") from None
        if len(content) > limit:
            raise ValueError(f"it is larger than {limit:,} bytes")
        return content


def read_json(path: Path, kind: type[T], *, expected: str, limit: int = LARGEST_JSON) -> T:
    """A JSON file (UTF-8, at most ``limit`` bytes) as a value of one type: ``dict[str, Any]``, a dataclass, or anything
    else that msgspec can decode to.
    """
    return parse_json(read_bytes(path, expected=expected, limit=limit), str(path), kind, expected=expected)


def parse_json(content: bytes | str, where: str, kind: type[T], *, expected: str) -> T:
    """JSON as a value of one type (:func:`read_json`); bytes are UTF-8 and may begin with a byte order mark.

    ``where`` is the file, and the line in it, for the message.
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content.removeprefix(_BOM)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _unfit(where, error, expected) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        why = reason(error)[:200] if raw.strip() else "it is empty"
        raise TrueNegError(f"{where}: is not JSON in UTF-8 ({why}); expected {expected}") from None


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


def _unfit(where: str, error: msgspec.ValidationError, expected: str) -> TrueNegError:
    what, _, place = str(error).replace("`", "").replace("$.", "").partition(" - at ")
    return TrueNegError(f"{where}: {f'{place}: ' if place else ''}{what}; expected {expected}")


def save_arrays(path: Path, metadata: Mapping[str, Any], **arrays: Any) -> None:
    """Writes a compressed npz without pickles; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        np.savez_compressed(file, **arrays, metadata=np.array(json.dumps(metadata, sort_keys=True)))


def read_arrays(path: Path, members: Collection[str], *, expected: str) -> dict[str, NDArray[Any]]:
    """These ``members`` of an npz that the package wrote, and no others; nothing is unpickled."""
    with reading(path, expected), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in members}


def without_nan(content: Any) -> Any:
    """The same with null for NaN and infinities, which JSON does not have."""
    if isinstance(content, dict):
        return {name: without_nan(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def json_line(record: Any) -> str:
    """A record as a line of a file of JSON lines, without its end."""
    return json.dumps(without_nan(record), ensure_ascii=False, allow_nan=False)


# --- What something was made of, so that different things never mix ---


class Change(NamedTuple):
    """A setting that is not as it was recorded."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        shown = f"{self.name} {self.before} (now {self.now})"
        return shown if len(shown) <= _LONGEST_CHANGE else f"another {self.name}"  # digests, lists of files


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """What is not as it was, of the names of ``now``; what the record lacks counts as None."""
    return [Change(name, before.get(name), value) for name, value in now.items() if before.get(name) != value]


def require_same(
    made: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    remedy: str = "remove it or choose another --output-dir",
) -> None:
    """Refuses what was made of something else, or with other settings; ``made`` is its name."""
    if changed := changes(before, now):
        raise TrueNegError(f"{made}: was made with {', '.join(map(str, changed))}; {remedy}")


def write_json(path: Path, content: Any) -> None:
    """Writes JSON to be read by people too; the file appears whole or not at all."""
    with replacing_text(path) as stream:
        json.dump(content, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


RECORD_NAME = "record.json"
_EXPECTED = "what this command writes there; choose another --output-dir, or move the folder away"
_LONGEST_CHANGE = 72
_LARGEST_RECORD = 1 << 30  # bytes; a file of text takes about a hundred, and corpora have millions


class Record(msgspec.Struct):
    """What a folder was made of, and of finished data what each split holds."""

    settings: dict[str, Any]
    splits: dict[str, dict[str, int]] = {}


def read_record(folder: Path) -> Record:
    return read_json(folder / RECORD_NAME, Record, expected=_EXPECTED, limit=_LARGEST_RECORD)


# --- Checks of paths, before a long computation ---


def require_checkpoint(path: Path) -> None:
    """Says what to do with a folder of Hugging Face's that is given as a checkpoint."""
    if not path.is_dir():
        return
    found, remedy = "a folder", "give a file such as checkpoint_last.pt"
    if (path / "config.json").is_file():
        found = "a Hugging Face model"
        remedy = f"convert it: truneg convert {path} CKPT.pt --data DATA-BIN"
    raise TrueNegError(f"{path}: is {found}, expected a fairseq checkpoint; {remedy}")


def require_writable(path: Path, flag: str, *, makes_folders: bool = False) -> None:
    """Says before a long computation that its result cannot be written; it leaves nothing behind.

    A device or a pipe is taken as it is. ``makes_folders``: missing folders will be made.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if path.exists() and not path.is_file():
            return
        folder = path.resolve().parent
        while makes_folders and not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TrueNegError(f"{flag} {path}: cannot be written ({error.strerror}); choose another file") from None


def require_once(flag: str, files: Sequence[Path]) -> None:
    """Refuses a file that is named twice, by one name or by several: a relative one, or a link."""
    times = Counter(map(os.path.realpath, files))
    if len(times) < len(files):
        raise TrueNegError(f"{flag}: names {min(name for name in times if times[name] > 1)} twice; name it once")


def split_name(argument: str) -> tuple[str | None, Path]:
    """The name and the path of ``[NAME=]PATH``; a path that exists may have a "=" of its own, as hydra's folders do."""
    name, separator, path = argument.partition("=")
    named = separator and name and not Path(argument).exists()
    return (name, Path(path)) if named else (None, Path(argument))


def require_different(**files: Path | Sequence[Path] | None) -> None:
    """Refuses an output that would overwrite an input or another output; None is passed over.

    The names are the flags', with "_" for "-", or those that arguments without a flag have in the help.
    """
    flags: dict[Path, str] = {}
    for name, given in files.items():
        flag = name if name.isupper() else f"--{name.replace('_', '-')}"
        for path in [given] if isinstance(given, Path) else given or ():
            if path.exists() and not path.is_file():
                continue
            if (other := flags.setdefault(path.resolve(), flag)) != flag:
                raise TrueNegError(f"{flag} {path}: is the file of {other} too; expected different files")
