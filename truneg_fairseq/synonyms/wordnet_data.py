"""Finds and installs WordNet 3.0 for NLTK; neither fairseq nor torch is imported here."""

from __future__ import annotations

import io
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, reason

logger = logging.getLogger(__name__)

SYNSETS = {"noun": 82_115, "verb": 13_767, "adj": 18_156, "adv": 3_621}
"""Of WordNet 3.0, as its authors publish them (manual page wnstats(7WN))."""

# Lexicographer files in the order of their numbers (manual page lexnames(5WN)), which Debian's packages lack.
_LEXNAMES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition "
    "noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person "
    "noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state "
    "noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition "
    "verb.consumption verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social "
    "verb.stative verb.weather adj.ppl"
).split()
_DEBIAN_PACKAGES = ("wordnet-base", "wordnet-sense-index")
_TIMEOUT = 15  # seconds without an answer from a server


def find_corpus(name: str) -> Any | None:
    """NLTK's pointer to one of its corpora, a folder or inside a zip archive; None where NLTK finds none."""
    import nltk.data

    for resource in (f"corpora/{name}", f"corpora/{name}.zip/{name}/"):
        try:
            return nltk.data.find(resource)
        except (LookupError, OSError):
            continue
        except zipfile.BadZipFile:  # half a download
            archives = (Path(str(folder), "corpora", f"{name}.zip") for folder in nltk.data.path)
            archive = next(path for path in archives if path.exists())
            command = "truneg wordnet" if name == "wordnet" else f"python -m nltk.downloader {name}"
            raise TrueNegError(f"{archive}: is not a whole zip archive; remove it and run '{command}'") from None
    return None


def find_wordnet() -> Path | None:
    """The WordNet that NLTK reads: its folder, or its ``wordnet.zip``; None where NLTK finds none."""
    pointer = find_corpus("wordnet")
    if pointer is None:
        return None
    archive = getattr(pointer, "zipfile", None)
    return Path(str(pointer) if archive is None else archive.filename)


def require_wordnet() -> Path:
    location = find_wordnet()
    if location is None:
        raise TrueNegError(
            "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet' (or set NLTK_DATA to a folder "
            "that holds corpora/wordnet)"
        )
    return location


def verify_wordnet(location: Path) -> None:
    """Checks that a folder or ``wordnet.zip`` has all synsets of WordNet 3.0."""
    root = location if location.is_dir() else zipfile.Path(location, "wordnet/")
    for suffix, expected in SYNSETS.items():
        lines = root.joinpath(f"data.{suffix}").read_bytes().split(b"\n")[:-1]
        found = sum(not line.startswith(b"  ") for line in lines)  # the licence is indented
        if found != expected:
            raise TrueNegError(
                f"{location}: data.{suffix} has {found:,} synsets, but WordNet 3.0 has {expected:,}; remove it and "
                "run 'truneg wordnet'"
            )


def install_wordnet(report: Callable[[str], None] = logger.info) -> Path:
    """Makes WordNet 3.0 available to NLTK, from NLTK's own server or else from Debian's packages; needs no root.

    It goes to the first folder of NLTK_DATA, else below the virtual environment, else below the home folder: the folder
    ``corpora/wordnet``, or a ``wordnet.zip``, which is returned.
    """
    present = find_wordnet()
    if present is not None:
        verify_wordnet(present)
        report(f"WordNet 3.0 is already in {present}")
        return present
    given = os.environ.get("NLTK_DATA", "").split(os.pathsep)[0]
    home = Path(sys.prefix) if sys.prefix != sys.base_prefix else Path.home()
    corpora = (Path(given).expanduser().absolute() if given else home / "nltk_data") / "corpora"
    umask = os.umask(0o022)  # NLTK refuses data that other accounts may write to
    try:
        corpora.mkdir(parents=True, exist_ok=True)
        return _install_into(corpora, report)
    finally:
        os.umask(umask)


def _install_into(corpora: Path, report: Callable[[str], None]) -> Path:
    # Beside the target, so that the last step is a rename inside one file system.
    with tempfile.TemporaryDirectory(dir=corpora, prefix=".wordnet-") as staging:
        for source, fetch in (("NLTK's server", _fetch_from_nltk), ("Debian's packages", _fetch_from_debian)):
            try:
                complete = fetch(Path(staging))
                verify_wordnet(complete)
            except Exception as error:  # no network, no such program, half a download
                output = getattr(error, "stdout", None)  # of a program
                report(f"no WordNet from {source}: {' '.join(output.split())[-200:] if output else reason(error)}")
                continue
            target = corpora / complete.name
            if not target.exists():  # else another process was faster
                complete.rename(target)
            report(f"installed WordNet 3.0 from {source}")
            return target
    raise TrueNegError(
        f"{corpora}: WordNet 3.0 could not be installed; run 'python -m nltk.downloader wordnet' with a network, or "
        "copy the folder corpora/wordnet of another machine there"
    )


def _fetch_from_nltk(work: Path) -> Path:
    import nltk

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        nltk.download("wordnet", download_dir=str(work), quiet=True, raise_on_error=True, print_error_to=io.StringIO())
    finally:
        socket.setdefaulttimeout(before)
    folder = work / "corpora" / "wordnet"
    return folder if folder.is_dir() else folder.with_suffix(".zip")


def _fetch_from_debian(work: Path) -> Path:
    """The database of Debian's packages, with the list of lexicographer files that they lack."""
    options = [f"-oAcquire::{protocol}::Timeout={_TIMEOUT}" for protocol in ("http", "https")]
    try:
        _call(work, "apt-get", *options, "download", *_DEBIAN_PACKAGES)
    except subprocess.CalledProcessError:
        # A machine whose package lists were never fetched, as in most containers: fetch them to a place of our own.
        for folder in ("lists/partial", "cache/archives/partial"):
            (work / folder).mkdir(parents=True)
        options += [f"-oDir::State::Lists={work / 'lists'}", f"-oDir::Cache={work / 'cache'}"]
        _call(work, "apt-get", *options, "update")
        _call(work, "apt-get", *options, "download", *_DEBIAN_PACKAGES)
    for archive in work.glob("*.deb"):
        _call(work, "dpkg", "-x", str(archive), "unpacked")
    complete = work / "wordnet"
    shutil.copytree(work / "unpacked/usr/share/wordnet", complete)
    shutil.copy(work / "unpacked/usr/share/doc/wordnet-base/copyright", complete / "LICENSE")
    parts = ("noun", "verb", "adj", "adv")
    lines = (f"{n:02d}\t{name}\t{1 + parts.index(name.partition('.')[0])}\n" for n, name in enumerate(_LEXNAMES))
    (complete / "lexnames").write_text("".join(lines), encoding="ascii")
    return complete


def _call(folder: Path, *command: str) -> None:
    streams: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    subprocess.run(command, cwd=folder, text=True, timeout=300, check=True, **streams)
