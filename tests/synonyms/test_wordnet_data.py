"""Finding, checking and installing WordNet: the real database, with the programs that fetch it replaced."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
import zipfile
from pathlib import Path

import nltk.data
import pytest

from truneg_fairseq.commands import wordnet as wordnet_command
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms import wordnet_data
from truneg_fairseq.synonyms.wordnet_data import (
    SYNSETS,
    count_synsets,
    default_nltk_data,
    find_wordnet,
    install_wordnet,
    verify_wordnet,
)

NO_NETWORK = """
import nltk.downloader

def urlopen(*args, **kwargs):
    raise OSError("no network here")

nltk.downloader.urlopen = urlopen
"""

SERVED_FROM_FILES = """
import pathlib
import nltk.downloader

HERE = pathlib.Path(__file__).parent
nltk.downloader.urlopen = lambda url, *args, **kwargs: open(HERE / url.rpartition("/")[2], "rb")
"""

APT_GET = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
    *" download "*) {download} ;;
esac
"""
DOWNLOADS = "touch wordnet-base_3.0_all.deb wordnet-sense-index_3.0_all.deb"
NEEDS_LISTS = 'case "$*" in *Dir::State::Lists=*) ' + DOWNLOADS + " ;; *) echo no such package; exit 100 ;; esac"
FAILS = "echo E: no such package >&2; exit 100"

DPKG = """#!/bin/sh
mkdir -p "$3/usr/share/doc/wordnet-base"
ln -sfn {database} "$3/usr/share/wordnet"
cp {database}/LICENSE "$3/usr/share/doc/wordnet-base/copyright"
"""


@pytest.fixture
def linked(wordnet, tmp_path) -> Path:
    """A folder of links to the real files, to break one of them."""
    folder = tmp_path / "linked"
    folder.mkdir()
    for file in wordnet.iterdir():
        (folder / file.name).symlink_to(file)
    return folder


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts fake programs alone on PATH, and replaces the network of NLTK's downloader."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "touch", "mkdir", "ln", "cp", "sleep"):
        (folder / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(folder))
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NO_NETWORK)
    monkeypatch.setenv("PYTHONPATH", str(site))

    def put(name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return put


def replace(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def test_nltk_reads_what_was_installed(wordnet):
    from nltk.corpus import wordnet as reader

    assert find_wordnet() == wordnet
    verify_wordnet(wordnet)
    assert count_synsets(wordnet) == SYNSETS
    assert sum(SYNSETS.values()) == 117_659
    # The lexicographer file's number in data.* counts into lexnames.
    lexnames = {name: reader.synset(name).lexname() for name in ("dog.n.01", "run.v.01", "quickly.r.01", "entity.n.01")}
    assert lexnames == {
        "dog.n.01": "noun.animal",
        "run.v.01": "verb.motion",
        "quickly.r.01": "adv.all",
        "entity.n.01": "noun.Tops",
    }
    assert reader.lemma("be.v.01.be").count() > 10_000


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("data.noun", lambda content: content[: len(content) // 2], r"found 7\d,\d{3} synsets \(4\d,\d{3} noun"),
        ("data.verb", lambda content: content[:-10], r"117,658 synsets \(82,115 noun, 13,766 verb"),
        ("data.adv", lambda content: content + b"00000000 02 r 01 new 0 000 | new\n", "117,660 synsets"),
        ("index.adj", lambda content: content[: len(content) // 2], r"index\.adj has 1\d,\d{3} entries"),
        ("index.sense", lambda content: content[:-1000], r"index\.sense has 206,9\d\d entries.*206,941"),
        ("lexnames", lambda content: content.replace(b"noun.act", b"noun.deed"), r"lexnames \(45 lines\)"),
        ("lexnames", lambda content: b"", r"lexnames \(0 lines\)"),
    ],
)
def test_broken_files_are_named(linked, name, change, message):
    verify_wordnet(linked)
    replace(linked / name, change((linked / name).read_bytes()))
    with pytest.raises(TrueNegError, match=message) as error:
        verify_wordnet(linked)
    assert str(error.value).startswith(f"{linked}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("names", [["lexnames"], ["index.sense"], ["noun.exc", "data.adj"]])
def test_missing_files_are_named(linked, names):
    for name in names:
        (linked / name).unlink()
    with pytest.raises(TrueNegError, match="missing") as error:
        verify_wordnet(linked)
    assert all(name in str(error.value) for name in names)


def test_no_such_folder(tmp_path):
    with pytest.raises(TrueNegError, match=r"there is no such folder; run `truneg wordnet`"):
        verify_wordnet(tmp_path / "nothing")


def zip_wordnet(wordnet: Path, archive: Path, leave_out: str = "") -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as members:
        for file in wordnet.iterdir():
            if file.name != leave_out:
                members.write(file, f"wordnet/{file.name}")


def test_zip_that_nltk_downloaded_counts(wordnet, tmp_path, monkeypatch):
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    archive = tmp_path / "corpora" / "wordnet.zip"
    zip_wordnet(wordnet, archive)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert find_wordnet() == archive
    assert install_wordnet() == archive
    assert count_synsets(archive) == SYNSETS
    with pytest.warns(UserWarning, match="multilingual"):
        reader = WordNetCorpusReader(nltk.data.find("corpora/wordnet.zip/wordnet/"), None)
    assert "primary" in reader.synset("primary.a.01").lemma_names()


def test_broken_zips_are_named(wordnet, tmp_path):
    archive = tmp_path / "wordnet.zip"
    zip_wordnet(wordnet, archive, leave_out="lexnames")
    with pytest.raises(TrueNegError, match=r"wordnet\.zip: WordNet's lexnames missing"):
        verify_wordnet(archive)
    archive.write_bytes(archive.read_bytes()[:1_000_000])
    with pytest.raises(TrueNegError, match="not a readable zip archive"):
        verify_wordnet(archive)


def test_nothing_found_outside_nltks_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert find_wordnet() is None


def test_default_folder_is_one_that_nltk_searches(monkeypatch):
    assert str(default_nltk_data()) in nltk.data.path
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert default_nltk_data() == Path.home() / "nltk_data"


def test_what_is_there_is_kept(wordnet, programs, capsys):
    wordnet_command.run(argparse.Namespace(nltk_data=None))
    assert capsys.readouterr().out.splitlines() == [
        f"WordNet 3.0 is already in {wordnet}",
        f"folder: {wordnet}",
        "synsets: 117,659",
    ]


def test_command_line_option():
    parser = argparse.ArgumentParser()
    wordnet_command.add_arguments(parser)
    assert parser.parse_args(["--nltk-data", "somewhere"]).nltk_data == Path("somewhere")
    assert parser.parse_args([]).nltk_data is None


def test_debian_packages(wordnet, programs, tmp_path):
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=DOWNLOADS))
    programs("dpkg", DPKG.format(database=wordnet))
    lines: list[str] = []
    before = os.umask(0o002)  # group-writable by default, which NLTK refuses to read
    try:
        location = install_wordnet(tmp_path / "data", lines.append)
    finally:
        os.umask(before)
    assert location == tmp_path / "data" / "corpora" / "wordnet"
    verify_wordnet(location)
    assert {file.name for file in location.iterdir()} >= {"LICENSE", "lexnames", "cntlist.rev"}
    assert not any(file.is_symlink() for file in location.iterdir())
    assert "Princeton" in (location / "LICENSE").read_text(encoding="utf-8")
    assert [path.name for path in location.parent.iterdir()] == ["wordnet"]
    for path in (tmp_path / "data", location.parent, location, *location.iterdir()):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path
    assert "no network here" in lines[0]
    assert lines[1:] == [
        "installed WordNet 3.0 from Debian's packages",
        f"NLTK does not search {tmp_path / 'data'}: set the environment variable NLTK_DATA={tmp_path / 'data'}",
    ]
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_debian_packages_without_package_lists(wordnet, programs, tmp_path):
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=NEEDS_LISTS))
    programs("dpkg", DPKG.format(database=wordnet))
    verify_wordnet(install_wordnet(tmp_path / "data"))
    first, update, second = (tmp_path / "log").read_text().splitlines()
    assert "Dir::" not in first
    assert update.endswith(" update")
    # Root's own lists and cache stay untouched.
    for line in (update, second):
        assert f"-oDir::State::Lists={tmp_path / 'data'}" in line
        assert f"-oDir::Cache={tmp_path / 'data'}" in line


def assert_nothing_installed(root: Path) -> None:
    assert list((root / "corpora").iterdir()) == []


def test_no_source_at_all(programs, tmp_path):
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=FAILS))
    programs("dpkg", "#!/bin/sh\nexit 1\n")
    with pytest.raises(TrueNegError) as error:
        install_wordnet(tmp_path / "data")
    message = str(error.value)
    assert "\n" not in message
    assert "no network here" in message
    assert "apt-get failed: E: no such package" in message
    assert "nltk.downloader -d" in message
    assert "apt-get download wordnet-base wordnet-sense-index" in message
    assert f"copy the folder corpora/wordnet of another machine into {tmp_path / 'data' / 'corpora'}" in message
    assert_nothing_installed(tmp_path / "data")


def test_no_debian(programs, tmp_path):
    with pytest.raises(TrueNegError, match="there is no apt-get on PATH"):
        install_wordnet(tmp_path / "data")


def test_package_of_something_else(linked, programs, tmp_path):
    (linked / "index.sense").unlink()
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=DOWNLOADS))
    programs("dpkg", DPKG.format(database=linked))
    with pytest.raises(TrueNegError, match=r"the packages hold no usr/share/wordnet/index\.sense"):
        install_wordnet(tmp_path / "data")
    assert_nothing_installed(tmp_path / "data")


def test_truncated_package_is_not_installed(linked, programs, tmp_path):
    replace(linked / "data.noun", (linked / "data.noun").read_bytes()[:1_000_000])
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=DOWNLOADS))
    programs("dpkg", DPKG.format(database=linked))
    with pytest.raises(TrueNegError, match=r"Debian's packages: found 4\d,\d{3} synsets"):
        install_wordnet(tmp_path / "data")
    assert_nothing_installed(tmp_path / "data")


def test_download_that_left_nothing(wordnet, programs, tmp_path):
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download="true"))
    programs("dpkg", DPKG.format(database=wordnet))
    with pytest.raises(TrueNegError, match=r"left no wordnet-base_\*\.deb"):
        install_wordnet(tmp_path / "data")


def test_hanging_program_is_given_up(programs, tmp_path, monkeypatch):
    programs("apt-get", "#!/bin/sh\nsleep 60\n")
    programs("dpkg", "#!/bin/sh\n")
    monkeypatch.setattr(wordnet_data, "_DOWNLOAD_TIMEOUT", 0.2)
    with pytest.raises(TrueNegError, match=r"apt-get did not finish within 0\.2 s"):
        install_wordnet(tmp_path / "data")
    assert_nothing_installed(tmp_path / "data")


def test_another_process_was_faster(wordnet, programs, tmp_path):
    target = tmp_path / "data" / "corpora" / "wordnet"
    programs("apt-get", APT_GET.format(log=tmp_path / "log", download=DOWNLOADS))
    programs(
        "dpkg", DPKG.format(database=wordnet) + f"mkdir -p {target}\ncp {wordnet}/* {target}\ntouch {target}/first\n"
    )
    assert install_wordnet(tmp_path / "data") == target
    assert (target / "first").exists()
    assert [path.name for path in target.parent.iterdir()] == ["wordnet"]


def test_nltks_own_package(wordnet, programs, tmp_path, monkeypatch):
    import hashlib

    site = tmp_path / "site"
    zip_wordnet(wordnet, site / "wordnet.zip")
    content = (site / "wordnet.zip").read_bytes()
    unpacked = sum(file.stat().st_size for file in wordnet.iterdir())
    package = (
        f'<package id="wordnet" name="WordNet" subdir="corpora" unzip="0" size="{len(content)}" '
        f'unzipped_size="{unpacked}" checksum="{hashlib.md5(content).hexdigest()}" '
        f'sha256_checksum="{hashlib.sha256(content).hexdigest()}" url="https://localhost/wordnet.zip"/>'
    )
    (site / "index.xml").write_text(f"<nltk_data><packages>{package}</packages><collections/></nltk_data>")
    (site / "sitecustomize.py").write_text(SERVED_FROM_FILES)
    lines: list[str] = []
    location = install_wordnet(tmp_path / "data", lines.append)
    verify_wordnet(location)
    assert (location / "LICENSE").is_file()
    assert lines[0] == "installed WordNet 3.0 from NLTK's server"


def test_broken_installation_is_not_kept_silently(linked, programs, tmp_path):
    target = tmp_path / "data" / "corpora" / "wordnet"
    target.parent.mkdir(parents=True)
    (linked / "lexnames").unlink()
    linked.rename(target)
    with pytest.raises(TrueNegError, match=f"lexnames missing; remove {target} and run `truneg wordnet`"):
        install_wordnet(tmp_path / "data")


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TrueNegError, match=r"cannot be written .*--nltk-data"):
        install_wordnet(tmp_path / "file")


@pytest.mark.filterwarnings("ignore:NLTK will not read:RuntimeWarning")
def test_data_that_nltk_refuses_to_read(wordnet, tmp_path, monkeypatch):
    shutil.copytree(wordnet, tmp_path / "corpora" / "wordnet")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    install_wordnet(tmp_path)
    (tmp_path / "corpora" / "wordnet").chmod(0o777)
    if find_wordnet() is not None:
        pytest.skip("this version of NLTK reads files that others may write to")
    with pytest.raises(TrueNegError, match=f"chmod -R go-w {tmp_path}"):
        install_wordnet(tmp_path)
