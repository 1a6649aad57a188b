"""Finding, checking and installing WordNet: the real database, with the programs that fetch it replaced."""

from __future__ import annotations

import os
import runpy
import shutil
import stat
from pathlib import Path

import nltk
import nltk.data
import pytest
from support.commands import REPOSITORY

from truneg_fairseq.commands.main import main
from truneg_fairseq.synonyms.wordnet import find_wordnet, install_wordnet, verify_wordnet

APT_GET = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
    *" download "*) {download} ;;
esac
"""
DOWNLOADS = "touch wordnet-base_3.0_all.deb wordnet-sense-index_3.0_all.deb"
NEEDS_LISTS = 'case "$*" in *Dir::State::Lists=*) ' + DOWNLOADS + " ;; *) echo no such package; exit 100 ;; esac"

DPKG = """#!/bin/sh
mkdir -p "$3/usr/share/doc/wordnet-base" "$3/usr/share/wordnet"
cp {database}/* "$3/usr/share/wordnet"
cp {database}/LICENSE "$3/usr/share/doc/wordnet-base/copyright"
"""


@pytest.fixture
def nltk_data(tmp_path, monkeypatch) -> Path:
    """An empty folder for NLTK's data."""
    folder = tmp_path / "data"
    monkeypatch.setenv("NLTK_DATA", str(folder))
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    return folder


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts fake programs alone on PATH, and takes the network from NLTK's downloader."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "touch", "mkdir", "cp"):
        (folder / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(nltk, "download", no_network)

    def put(name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return put


def no_network(*arguments, **options):
    raise ValueError("no network here")


def test_what_is_there_is_kept(wordnet, capsys):
    main(["wordnet"])
    assert capsys.readouterr().out.splitlines() == [f"WordNet 3.0 is already in {wordnet}", f"WordNet: {wordnet}"]


def test_the_script_takes_debian_packages_if_nltk_has_no_network(wordnet, programs, nltk_data, tmp_path, capsys):
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=NEEDS_LISTS))
    programs("dpkg", DPKG.format(database=wordnet))
    with pytest.raises(
        SystemExit, match=r"WordNet: cannot be had .* \(no network here\); data-bin-scripts/get_wordnet.py"
    ):
        main(["wordnet"])
    before = os.umask(0o002)  # group-writable by default, which NLTK refuses to read
    try:
        location = runpy.run_path(str(REPOSITORY / "data-bin-scripts" / "get_wordnet.py"))["main"]()
    finally:
        os.umask(before)
    assert location == nltk_data / "corpora" / "wordnet" == find_wordnet()
    verify_wordnet(location)
    assert (location / "lexnames").read_text() == (wordnet / "lexnames").read_text()
    assert "Princeton" in (location / "LICENSE").read_text(encoding="utf-8")
    assert [path.name for path in location.parent.iterdir()] == ["wordnet"]
    for path in (nltk_data, location.parent, location, *location.iterdir()):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path
    assert capsys.readouterr().out.splitlines()[-1] == f"WordNet: {location}"
    first, *others = (tmp_path / "log").read_text().splitlines()
    assert "Dir::" not in first
    assert len(others) == 2
    assert all(f"-oDir::State::Lists={nltk_data}" in line for line in others), "root's own lists stay untouched"


def test_nltks_own_package(wordnet, programs, nltk_data, monkeypatch):
    def download(name, download_dir, **options):
        assert name == "wordnet"
        corpora = Path(download_dir) / "corpora"
        corpora.mkdir(parents=True)
        shutil.make_archive(str(corpora / "wordnet"), "zip", wordnet.parent, "wordnet")

    monkeypatch.setattr(nltk, "download", download)
    lines: list[str] = []
    assert install_wordnet(lines.append) == nltk_data / "corpora" / "wordnet.zip" == find_wordnet()
    assert lines == ["installed WordNet 3.0 from NLTK's server"]
