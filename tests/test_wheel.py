"""The wheel in environments of its own: one without fairseq, and one with it that trains by --user-dir."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.commands import REPOSITORY, TINY_MODEL, TINY_TRAINING

pytest.importorskip("build", reason="the wheel is built with the package build")

pytestmark = pytest.mark.slow


def requirements(wheel: Path, extra: str = "") -> list[str]:
    """What an installation of the wheel brings, by its own metadata and by those of what is installed here."""
    with zipfile.ZipFile(wheel) as archive:
        (place,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    metadata = importlib.metadata.PathDistribution(zipfile.Path(wheel, f"{place}/"))
    wanted, found = [(line, extra) for line in metadata.requires or []], set[str]()
    while wanted:
        line, asked = wanted.pop()
        requirement = Requirement(line)
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": asked})):
            continue
        found.add(requirement.name)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # of another platform
            wanted += [(line, "") for line in importlib.metadata.requires(requirement.name) or []]
    return sorted(found)


def environment(folder: Path, wheel: Path, names: list[str]) -> Path:
    """A virtual environment with the wheel and links to these distributions, and nothing else; its programs' folder."""
    venv.create(folder, symlinks=True)
    (place,) = folder.glob("lib/python3*/site-packages")
    for name in names:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            source = Path(str(importlib.metadata.distribution(name).locate_file(top)))
            if source.exists() and not (place / top).exists():
                (place / top).symlink_to(source)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps", wheel]
    subprocess.run([str(part) for part in pip], check=True)
    return folder / "bin"


def run(*command: object, cwd: Path, status: int = 0) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**clean, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in", "Makefile"):
        shutil.copy(REPOSITORY / name, folder)
    for name in ("truneg_fairseq", "tests"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder],
        check=True,
        capture_output=True,
    )
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed >= {"Makefile", "tests/conftest.py", "tests/support/commands.py"}, "what `make test` needs"
    (path,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        assert "truneg_fairseq/py.typed" in archive.namelist(), "type checkers read the annotations of installed code"
    return path


def test_the_base_works_without_fairseq_and_tells_the_extras(wheel, tmp_path):
    names = requirements(wheel)
    assert "torch" in names
    assert "fairseq-fixed" not in names
    programs = environment(tmp_path / "base", wheel, names)
    (tmp_path / "dict.txt").write_text("big 1\nlarge 1\n", encoding="utf-8")
    (tmp_path / "own.tsv").write_text("big\tlarge\n", encoding="utf-8")
    arguments = ["--source", "tsv", "--tsv", "own.tsv", "--tokenization", "words"]
    assert "1 usable pairs" in run(programs / "truneg", "synonyms", "build", "--data", ".", *arguments, cwd=tmp_path)
    parts = "objectives.build vocabulary synonyms.building finetuning.squad_files finetuning results.comparison"
    modules = ", ".join(f"truneg_fairseq.{name}" for name in parts.split())
    install = "pip install --no-build-isolation '.[fairseq]' in the clone of truneg_fairseq"
    told = {"criterions": install, "hf": "pip install '.[hf]' in the clone of truneg_fairseq"}
    code = f"""
import importlib, {modules}
import sys
from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import MissingExtraError
from truneg_fairseq.objectives.false_negatives import acceptance_model
acceptance_model({{"embedding"}})
assert "fairseq" not in sys.modules
for module, command in {told!r}.items():
    try:
        importlib.import_module("truneg_fairseq." + module)
    except MissingExtraError as error:
        assert str(error).endswith(command), error
    else:
        raise AssertionError(module)
main(["convert", "x.pt", "out"])
"""
    convert = run(programs / "python", "-c", code, cwd=tmp_path, status=1)
    assert convert.startswith("truneg_fairseq: error: fairseq: not installed")
    assert convert.rstrip().endswith(install)
    assert convert.count("\n") == 1


def test_a_training_by_user_dir_from_the_wheel(wheel, tmp_path, without_table):
    programs = environment(tmp_path / "full", wheel, requirements(wheel, "fairseq"))
    user_dir = run(programs / "truneg", "user-dir", cwd=tmp_path).strip()
    assert user_dir.startswith(str(tmp_path / "full"))
    (tmp_path / "own.tsv").write_text("big\tlarge\nlarge\tbig\n", encoding="utf-8")
    build = ("synonyms", "build", "--data", without_table, "--source", "tsv", "--tsv", "own.tsv", "--output", "own.npz")
    run(programs / "truneg", *build, "--tokenization", "wordpiece", cwd=tmp_path)
    synonyms = ["--synonym-table", "own.npz", "--tokenization", "wordpiece"]
    command = ["-m", "fairseq_cli.train", without_table, "--user-dir", user_dir, *TINY_TRAINING, *TINY_MODEL]
    log = run(
        *(programs / "python", *command, "--criterion", "masked_lm_hc", *synonyms, "--max-update", 2),
        *("--save-dir", tmp_path / "saved"),
        cwd=tmp_path,
    )
    assert "hc_pred" in log
    assert (tmp_path / "saved" / "checkpoint_last.pt").exists()
