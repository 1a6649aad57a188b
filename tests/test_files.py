"""Digests, and files and folders that appear whole or not at all."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from filelock import FileLock
from support.commands import command_environment, run_command

from truneg_fairseq import files
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import (
    convert,
    file_digest,
    new_folder,
    read_arrays,
    read_json,
    replacing_file,
    replacing_text,
    split_name,
)
from truneg_fairseq.results.result import Result, append_result


def test_digest_is_hashlib_s_and_a_pipe_has_none(tmp_path):
    """Its bytes are gone once they are read: the digest would be that of nothing."""
    content = os.urandom((1 << 20) + 7)
    (tmp_path / "f").write_bytes(content)
    assert file_digest(tmp_path / "f") == hashlib.sha256(content).hexdigest()
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(TrueNegError, match=r"/dev/fd/\d+: is a pipe, which can be read only once; expected a file"):
        file_digest(Path(f"/dev/fd/{reader}"))
    os.close(reader)


def write(path: Path, text: str = "new") -> None:
    with replacing_text(path) as stream:
        stream.write(text)


def test_a_file_is_replaced_only_when_the_block_ends_well(tmp_path):
    path = tmp_path / "f"
    write(path, "old")
    with pytest.raises(ZeroDivisionError), replacing_file(path) as stream:
        stream.write(b"half")
        _ = 1 / 0
    assert path.read_text() == "old"
    write(path)
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "f").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "f")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "f").read_text() == "new"


def test_a_link_planted_in_place_of_the_temporary_file_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".f.guessed.part").symlink_to(tmp_path / "victim")
    with pytest.raises(TrueNegError, match="f: cannot be written"):
        write(tmp_path / "f")
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("redirected", [False, True])
def test_standard_output_is_written(redirected, tmp_path):
    code = (
        "from pathlib import Path; from truneg_fairseq.files import replacing_text\n"
        "with replacing_text(Path('/dev/stdout')) as stream: stream.write('told')"
    )
    with (tmp_path / "out").open("wb") as out:
        inode = (tmp_path / "out").stat().st_ino
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=out if redirected else subprocess.PIPE,
            env=command_environment(),
            check=True,
        )
    if redirected:
        assert (tmp_path / "out").read_text() == "told"
        assert (tmp_path / "out").stat().st_ino == inode
    else:
        assert done.stdout == b"told"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("folder", "Is a directory); choose another folder"),
        ("none/f", "No such file or directory); choose another folder"),
        ("/dev/full", "No space left on device); free space there"),
    ],
)
def test_what_cannot_be_written_is_one_line(bad, why, tmp_path):
    if bad == "/dev/full" and not Path(bad).exists():
        pytest.skip("no /dev/full")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TrueNegError, match=re.escape(f"{bad}: cannot be written ({why}")):
        write(tmp_path / bad)


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "a" / "b") as folder:
        (folder / "f").touch()
        _ = 1 / 0
    assert list((tmp_path / "a").iterdir()) == []
    with new_folder(tmp_path / "a" / "b") as folder:
        (folder / "f").touch()
        assert not (tmp_path / "a" / "b").exists()
    assert [str(p.relative_to(tmp_path)) for p in sorted(tmp_path.rglob("*"))] == ["a", "a/b", "a/b/f"]


KILLED = """
import os, signal, sys
from pathlib import Path
from truneg_fairseq.files import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    (folder / "f").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_half_written_folders_of_a_killed_process_are_removed(tmp_path):
    for _ in range(2):
        run_command([sys.executable, "-c", KILLED, tmp_path / "f"], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with new_folder(tmp_path / "f"):
        (staging,) = tmp_path.iterdir()
        with new_folder(tmp_path / "f"):
            assert staging.exists()  # that of a living one
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_folder_is_locked_before_another_process_can_see_it(tmp_path, monkeypatch):
    """Between its making and its lock another process would take it for that of a killed one."""

    class Slow(FileLock):
        def acquire(self, *arguments, **others):
            monkeypatch.undo()
            with new_folder(tmp_path / "f"):
                pass
            (tmp_path / "f").rmdir()
            assert Path(self.lock_file).parent.is_dir()
            return super().acquire(*arguments, **others)

    monkeypatch.setattr(files, "FileLock", Slow)
    with new_folder(tmp_path / "f") as folder:
        assert folder.is_dir()
    assert (tmp_path / "f").is_dir()


@dataclasses.dataclass
class Pair:
    first: int
    second: list[str]


NOT_JSON = "is not JSON in UTF-8"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Any, "[" * 100_000, NOT_JSON),
        (Any, " " * 200_000, "is larger than 100,001 bytes"),
        (Any, gzip.compress(b" " * 200_000), "is larger than 100,001 bytes"),
        (Any, "1" * 5_000, "out of range"),
        (Any, '{"a": "\\ud800"}', NOT_JSON),
        (Any, '{"a": NaN}', NOT_JSON),
        (Any, b'{"a": "\xff"}', NOT_JSON),
        (Any, "", "it is empty"),
        (Pair, '{"first": "1", "second": []}', "first: Expected int, got str"),
        (Pair, '{"first": true, "second": []}', "first: Expected int, got bool"),
        (Pair, '{"first": 1}', "missing required field second"),
        (Pair, "[1]", "Expected object, got array"),
    ],
)
def test_json_of_any_shape_and_type_is_one_line(tmp_path, kind, text, message):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TrueNegError, match=message) as caught:
        read_json(path, kind, expected="something else", limit=100_001)
    assert str(path) in str(caught.value) and "expected something else" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_becomes_a_value_of_its_type(tmp_path):
    (tmp_path / "p.json").write_text('{"first": 1, "second": ["a"]}')
    assert read_json(tmp_path / "p.json", Pair, expected="a pair") == Pair(1, ["a"])
    with pytest.raises(TrueNegError, match="has 'third'; expected only first, second"):
        convert({"first": 1, "second": [], "third": 2}, "x", Pair, expected="a pair")


def test_an_error_of_the_writer_s_own_is_not_taken_for_the_file_s(tmp_path):
    with pytest.raises(OSError, match="mine"), replacing_file(tmp_path / "f"):
        raise OSError("mine")
    with pytest.raises(OSError, match="mine"), new_folder(tmp_path / "d"):
        raise OSError("mine")
    with pytest.raises(FileNotFoundError), replacing_file(tmp_path / "f"):
        (tmp_path / "input").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_exists_may_have_an_equals_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lr=1").mkdir()
    assert split_name("lr=1") == (None, Path("lr=1"))
    assert split_name("lr=2") == ("lr", Path("2"))


def save_pytorch(path: Path) -> None:
    with replacing_file(path) as stream:
        torch.save(torch.zeros(10**5), stream)


def save_safetensors(path: Path) -> None:
    with new_folder(path) as place:
        safetensors.torch.save_file({"a": torch.zeros(10**5)}, place / "model.safetensors")


def add_result(path: Path) -> None:
    append_result(path, Result(model="m" * 10**5, task="CoLA", seed=1, metrics={"matthews": 0.5}))


@pytest.mark.parametrize("save", [save_pytorch, save_safetensors, add_result])
def test_errors_of_a_full_disk_that_libraries_hide_are_one_line_too(save, tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(TrueNegError, match=r"/out: cannot be written \(File too large\); free space there"):
            save(tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@dataclasses.dataclass
class Bomb:
    """Leaves a file behind when it is unpickled."""

    trace: Path

    def __reduce__(self):
        return Path.touch, (self.trace,)


def test_arrays_are_read_and_nothing_is_unpickled(tmp_path):
    path = tmp_path / "a.npz"
    unasked = np.array([Bomb(tmp_path / "unpickled")])
    np.savez_compressed(path, a=np.arange(4, dtype=np.int32), t=np.array("hello"), unasked=unasked)
    arrays = read_arrays(path, ("a", "t"), expected="arrays")
    assert arrays["a"].tolist() == [0, 1, 2, 3] and str(arrays["t"]) == "hello"
    content = path.read_bytes()
    np.savez(tmp_path / "pickled.npz", a=unasked, t=np.array("hello"))
    np.savez(tmp_path / "other.npz", b=np.arange(4))
    (tmp_path / "cut.npz").write_bytes(content[:100])
    (tmp_path / "text.npz").write_text("some words\n")
    for name in ("pickled", "text"):  # numpy advises to unpickle it
        with pytest.raises(TrueNegError, match=r"\(it is no file of arrays, or has Python objects in it\); expected"):
            read_arrays(tmp_path / f"{name}.npz", ("a", "t"), expected="arrays")
    for name in ("other", "cut", "none"):
        with pytest.raises(TrueNegError, match=rf"{name}\.npz: .*; expected arrays"):
            read_arrays(tmp_path / f"{name}.npz", ("a", "t"), expected="arrays")
    assert not (tmp_path / "unpickled").exists()
