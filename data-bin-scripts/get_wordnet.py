"""Installs WordNet 3.0 for NLTK, without root: as `truneg wordnet` does, or else from Debian's packages.

A machine that reaches only package registries has no NLTK server, but perhaps apt-get's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from truneg_fairseq.errors import TrueNegError, one_line_errors, reason
from truneg_fairseq.synonyms.wordnet import data_folder, install_wordnet, verify_wordnet

# Lexicographer files in the order of their numbers (manual page lexnames(5WN)), which Debian's packages lack.
LEXNAMES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition "
    "noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person "
    "noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state "
    "noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition "
    "verb.consumption verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social "
    "verb.stative verb.weather adj.ppl"
).split()
PACKAGES = ("wordnet-base", "wordnet-sense-index")
TIMEOUT = 15  # seconds without an answer from a server


def main() -> Path:
    """Installs WordNet if it is missing, prints where it is, and returns its place."""
    try:
        location = install_wordnet(print)
    except TrueNegError as error:
        print(f"{str(error).partition(';')[0]}; trying Debian's packages", flush=True)
        location = install_from_debian()
    print(f"WordNet: {location}")
    return location


def install_from_debian() -> Path:
    """Puts the database of Debian's packages into NLTK's folder; returns its place."""
    umask = os.umask(0o022)  # NLTK refuses data that other accounts may write to
    corpora = data_folder() / "corpora"
    try:
        corpora.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the last step is a rename inside one file system.
        with tempfile.TemporaryDirectory(dir=corpora, prefix=".wordnet-") as work:
            complete = fetch(Path(work))
            verify_wordnet(complete)
            target = corpora / complete.name
            if not target.exists():  # else another process was faster
                complete.rename(target)
        return target
    except (OSError, subprocess.SubprocessError, TrueNegError) as error:
        output = " ".join(str(getattr(error, "stdout", None) or reason(error)).split())[-200:]
        message = f"{corpora}: no WordNet from Debian's packages ({output}); copy corpora/wordnet of another machine"
        raise TrueNegError(message) from None
    finally:
        os.umask(umask)


def fetch(work: Path) -> Path:
    """The database of Debian's packages, with the list of lexicographer files that they lack."""
    options = [f"-oAcquire::{protocol}::Timeout={TIMEOUT}" for protocol in ("http", "https")]
    try:
        call(work, "apt-get", *options, "download", *PACKAGES)
    except subprocess.CalledProcessError:
        # A machine whose package lists were never fetched, as in most containers: fetch them to a place of our own.
        for folder in ("lists/partial", "cache/archives/partial"):
            (work / folder).mkdir(parents=True)
        options += [f"-oDir::State::Lists={work / 'lists'}", f"-oDir::Cache={work / 'cache'}"]
        call(work, "apt-get", *options, "update")
        call(work, "apt-get", *options, "download", *PACKAGES)
    for archive in work.glob("*.deb"):
        call(work, "dpkg", "-x", str(archive), "unpacked")
    complete = work / "wordnet"
    shutil.copytree(work / "unpacked/usr/share/wordnet", complete)
    shutil.copy(work / "unpacked/usr/share/doc/wordnet-base/copyright", complete / "LICENSE")
    parts = ("noun", "verb", "adj", "adv")
    lines = (f"{n:02d}\t{name}\t{1 + parts.index(name.partition('.')[0])}\n" for n, name in enumerate(LEXNAMES))
    (complete / "lexnames").write_text("".join(lines), encoding="ascii")
    return complete


def call(folder: Path, *command: str) -> None:
    """Runs a program quietly in a folder."""
    streams: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    subprocess.run(command, cwd=folder, text=True, timeout=300, check=True, **streams)


if __name__ == "__main__":
    with one_line_errors():
        main()
