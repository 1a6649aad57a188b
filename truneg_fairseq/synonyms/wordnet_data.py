"""WordNet 3.0 for NLTK: finding it, checking it and installing it.

NLTK reads WordNet from ``corpora/wordnet`` (a folder, or ``corpora/wordnet.zip``) below one of the folders of
``nltk.data.path``. Neither fairseq nor torch is imported here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ..errors import TrueNegError, reason

logger = logging.getLogger(__name__)

FILE_SUFFIXES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
"""How the names of WordNet's files end, by part of speech."""

_SUFFIXES = tuple(FILE_SUFFIXES.values())

# The statistics of WordNet 3.0 as its authors publish them (manual page wnstats(7WN)).
SYNSETS = {"noun": 82_115, "verb": 13_767, "adj": 18_156, "adv": 3_621}
LEMMAS = {"noun": 117_798, "verb": 11_529, "adj": 21_479, "adv": 4_481}
SENSES = 206_941

# Lexicographer files in the order of their numbers (manual page lexnames(5WN)).
_LEXICOGRAPHER_FILES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition "
    "noun.communication noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person "
    "noun.phenomenon noun.plant noun.possession noun.process noun.quantity noun.relation noun.shape noun.state "
    "noun.substance noun.time verb.body verb.change verb.cognition verb.communication verb.competition "
    "verb.consumption verb.contact verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social "
    "verb.stative verb.weather adj.ppl"
)
_LEXNAMES = [
    (f"{number:02d}", name, str(1 + _SUFFIXES.index(name.partition(".")[0])))
    for number, name in enumerate(_LEXICOGRAPHER_FILES.split())
]

_DATA_FILES = tuple(f"data.{pos}" for pos in _SUFFIXES)
_INDEX_FILES = tuple(f"index.{pos}" for pos in _SUFFIXES)
_EXCEPTION_FILES = tuple(f"{pos}.exc" for pos in _SUFFIXES)
_REQUIRED = (*_DATA_FILES, *_INDEX_FILES, *_EXCEPTION_FILES, "index.sense", "lexnames")
_DEBIAN_DATABASE = (*_DATA_FILES, *_INDEX_FILES, *_EXCEPTION_FILES, "index.sense", "cntlist.rev")
_DEBIAN_PACKAGES = ("wordnet-base", "wordnet-sense-index")

_Root = Path | zipfile.Path

_SOCKET_TIMEOUT = 15  # seconds without an answer from a server
_DOWNLOAD_TIMEOUT = 300  # seconds for one whole download

# Runs in a process of its own: NLTK's own time limits differ from version to version, and its messages go to stderr.
_NLTK_PROGRAM = f"""
import socket, sys
socket.setdefaulttimeout({_SOCKET_TIMEOUT})
import nltk, nltk.data, nltk.downloader
nltk.downloader.NETWORK_TIMEOUT = {_SOCKET_TIMEOUT}
nltk.data.path.insert(0, sys.argv[1])
sys.exit(0 if nltk.download("wordnet", download_dir=sys.argv[1], quiet=True, prefix="") else 1)
"""


class _Defect(Exception):
    """What is wrong with a WordNet, without its path."""


class _Unavailable(Exception):
    """One way of getting WordNet did not work; the message says why, in a few words."""


def find_wordnet() -> Path | None:
    """The WordNet that NLTK reads: its folder, or its ``wordnet.zip``; None where NLTK finds none.

    Only NLTK's own rules decide (recent versions refuse data that other accounts can write to); what the files hold
    is checked by :func:`verify_wordnet`.
    """
    import nltk.data

    for resource in ("corpora/wordnet", "corpora/wordnet.zip/wordnet/"):
        try:
            pointer = nltk.data.find(resource)
        except (LookupError, OSError):
            continue
        archive = getattr(pointer, "zipfile", None)
        return Path(str(pointer)) if archive is None else Path(archive.filename)
    return None


def count_synsets(location: Path) -> dict[str, int]:
    """Synsets of every part of speech ("noun", "verb", "adj", "adv") in a WordNet folder or ``wordnet.zip``."""
    with _naming(location):
        return _synsets(_open_root(location))


def read_database(location: Path) -> dict[str, bytes]:
    """The database files of a WordNet folder (or ``wordnet.zip``) by name: index.*, data.* and *.exc."""
    with _naming(location):
        root = _open_root(location)
        return {name: _read(root, name) for name in (*_INDEX_FILES, *_DATA_FILES, *_EXCEPTION_FILES)}


def verify_wordnet(folder: Path) -> None:
    """Checks that a WordNet folder (or ``wordnet.zip``) holds WordNet 3.0, whole."""
    with _naming(folder):
        _check(_open_root(folder))


def default_nltk_data() -> Path:
    """The default folder for WordNet: below the virtual environment, else below the home folder.

    NLTK searches both.
    """
    return Path(sys.prefix) / "nltk_data" if sys.prefix != sys.base_prefix else Path.home() / "nltk_data"


def install_wordnet(nltk_data: Path | None = None, report: Callable[[str], None] = logger.info) -> Path:
    """Makes WordNet 3.0 available to NLTK, from NLTK's own server or else from Debian's packages; needs no root.

    Args:
        nltk_data: the folder that is to hold ``corpora/wordnet``. Without it a WordNet that NLTK finds anywhere will
            do, and :func:`default_nltk_data` takes a new one.
        report: receives one line a step, saying where the data come from.

    Returns:
        The folder ``corpora/wordnet``, or the ``wordnet.zip`` that was there already.
    """
    present = find_wordnet() if nltk_data is None else _find_under(nltk_data)
    root = (default_nltk_data() if nltk_data is None else nltk_data).expanduser().absolute()
    if present is None and nltk_data is None:
        present = _find_under(root)  # there, but refused by NLTK
    if present is None:
        present = _install_into(root, report)
    else:
        verify_wordnet(present)
        report(f"WordNet 3.0 is already in {present}")
    _require_readable(root, nltk_data is not None, present, report)
    return present


def _find_under(nltk_data: Path) -> Path | None:
    corpora = nltk_data.expanduser().absolute() / "corpora"
    return next((path for path in (corpora / "wordnet", corpora / "wordnet.zip") if path.exists()), None)


def _install_into(root: Path, report: Callable[[str], None]) -> Path:
    target = root / "corpora" / "wordnet"
    try:
        _make_folder(target.parent)
        # Beside the target, so that the last step is a rename inside one file system.
        staging = tempfile.TemporaryDirectory(dir=target.parent, prefix=".wordnet-")
    except OSError as error:
        raise TrueNegError(
            f"{target.parent}: cannot be written ({reason(error)}); choose another folder with --nltk-data"
        ) from None
    reasons = []
    with staging:
        for source, fetch in (("NLTK's server", _fetch_from_nltk), ("Debian's packages", _fetch_from_debian)):
            work = Path(staging.name) / fetch.__name__
            work.mkdir()
            try:
                complete = fetch(work)
                _check(complete)
            except (_Unavailable, _Defect) as failure:
                reasons.append(f"{source}: {failure}")
                report(f"no WordNet from {source}: {failure}")
                continue
            _move_into_place(complete, target)
            report(f"installed WordNet 3.0 from {source}")
            return target
    raise TrueNegError(
        f"WordNet 3.0 could not be installed into {root} ({'; '.join(reasons)}): run `{Path(sys.executable).name} -m "
        f"nltk.downloader -d {root} wordnet` with a network, or make `apt-get download {' '.join(_DEBIAN_PACKAGES)}` "
        f"work and try again, or copy the folder corpora/wordnet of another machine into {root / 'corpora'}"
    )


def _move_into_place(complete: Path, target: Path) -> None:
    try:
        complete.rename(target)
    except OSError:
        # Another process was faster: a folder is never renamed onto one that has files in it.
        if not target.is_dir():
            raise
        verify_wordnet(target)


def _require_readable(root: Path, custom: bool, present: Path, report: Callable[[str], None]) -> None:
    import nltk.data

    searched = {Path(str(path)).expanduser().absolute() for path in nltk.data.path}
    if custom and root not in searched:
        report(f"NLTK does not search {root}: set the environment variable NLTK_DATA={root}")
    elif find_wordnet() is None:
        raise TrueNegError(
            f"{present}: NLTK refuses to read it, because other accounts may write to it or to a folder above it; "
            f"run `chmod -R go-w {root}`"
        )


def _fetch_from_nltk(work: Path) -> Path:
    """NLTK's package ``wordnet``, unpacked into a folder below ``work``."""
    _call([sys.executable, "-W", "ignore", "-c", _NLTK_PROGRAM, str(work)], work)
    archive = work / "corpora" / "wordnet.zip"
    if not archive.is_file():
        raise _Unavailable("NLTK's downloader left no corpora/wordnet.zip")
    complete = work / "complete"
    _make_folder(complete)
    try:
        with zipfile.ZipFile(archive) as members:
            for member in members.infolist():
                path = PurePosixPath(member.filename)
                if not member.is_dir() and path.parent == PurePosixPath("wordnet"):
                    _write(complete / path.name, members.read(member))
    except zipfile.BadZipFile as error:
        raise _Unavailable(f"NLTK's downloader left a broken corpora/wordnet.zip ({error})") from None
    return complete


def _fetch_from_debian(work: Path) -> Path:
    """The database of Debian's packages with the list of lexicographer files that they lack, below ``work``."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise _Unavailable(f"there is no {tool} on PATH")
    _download_packages(work)
    unpacked = work / "unpacked"
    for package in _DEBIAN_PACKAGES:
        archive = next(work.glob(f"{package}_*.deb"), None)
        if archive is None:
            raise _Unavailable(f"apt-get download left no {package}_*.deb")
        _call(["dpkg", "-x", str(archive), str(unpacked)], work)
    complete = work / "complete"
    _make_folder(complete)
    try:
        for name in _DEBIAN_DATABASE:
            _write(complete / name, (unpacked / "usr/share/wordnet" / name).read_bytes())
        _write(complete / "LICENSE", (unpacked / "usr/share/doc/wordnet-base/copyright").read_bytes())
    except FileNotFoundError as error:
        raise _Unavailable(f"the packages hold no {Path(error.filename).relative_to(unpacked)}") from None
    _write(complete / "lexnames", "".join("\t".join(fields) + "\n" for fields in _LEXNAMES).encode())
    return complete


def _download_packages(work: Path) -> None:
    options = [f"-oAcquire::{protocol}::Timeout={_SOCKET_TIMEOUT}" for protocol in ("http", "https")]
    download = ["apt-get", "-q", *options, "download", *_DEBIAN_PACKAGES]
    try:
        _call(download, work)
    except _Unavailable:
        # A machine whose package lists were never fetched, as in most containers: fetch them to a place of our own.
        for folder in ("lists/partial", "cache/archives/partial"):
            (work / folder).mkdir(parents=True)
        options += [f"-oDir::State::Lists={work / 'lists'}", f"-oDir::Cache={work / 'cache'}"]
        _call(["apt-get", "-q", *options, "update"], work)
        _call(["apt-get", "-q", *options, "download", *_DEBIAN_PACKAGES], work)


def _call(command: Sequence[str], folder: Path) -> None:
    """Runs a program without a terminal; :class:`_Unavailable` with its last message where it fails."""
    name = Path(command[0]).name
    # Into a file, not a pipe: after a time-out a pipe would still wait for the program's own children.
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_DOWNLOAD_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _Unavailable(f"{name} did not finish within {_DOWNLOAD_TIMEOUT} s") from None
        except OSError as error:
            raise _Unavailable(f"{name} cannot be run ({reason(error)})") from None
        output.seek(0)
        message = " ".join(output.read().decode("utf-8", "replace").split())
    if done.returncode != 0:
        raise _Unavailable(f"{name} failed: {message[-200:]}" if message else f"{name} failed")


def _make_folder(folder: Path) -> None:
    """Makes a folder and its parents, none of them writable by others whatever the umask: NLTK refuses such data."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(exist_ok=True)
            path.chmod(0o755)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o644)


@contextlib.contextmanager
def _naming(location: Path) -> Iterator[None]:
    try:
        yield
    except _Defect as defect:
        remedy = f"remove {location} and run" if location.exists() else "run"
        raise TrueNegError(f"{location}: {defect}; {remedy} `truneg wordnet`") from None


def _open_root(location: Path) -> _Root:
    if location.is_dir():
        return location
    if not location.exists():
        raise _Defect("there is no such folder")
    try:
        return zipfile.Path(location, "wordnet/")
    except Exception as error:  # see _read
        raise _Defect(f"not a readable zip archive ({reason(error)})") from None


def _check(root: _Root) -> None:
    missing = [name for name in _REQUIRED if not root.joinpath(name).is_file()]
    if missing:
        raise _Defect(f"WordNet's {', '.join(missing)} missing")
    synsets = _synsets(root)
    if synsets != SYNSETS:
        raise _Defect(f"found {_describe(synsets)}, but WordNet 3.0 has {_describe(SYNSETS)}")
    entries = {f"index.{pos}": LEMMAS[pos] for pos in _SUFFIXES} | {"index.sense": SENSES}
    for name, expected in entries.items():
        found = _count_records(root, name)
        if found != expected:
            raise _Defect(f"{name} has {found:,} entries, but WordNet 3.0 has {expected:,}")
    lexnames = [tuple(line.split()) for line in _read(root, "lexnames").decode("latin-1").splitlines()]
    if lexnames != _LEXNAMES:
        raise _Defect(
            f"lexnames ({len(lexnames)} lines) is not the list of WordNet 3.0's {len(_LEXNAMES)} lexicographer files"
        )


def _synsets(root: _Root) -> dict[str, int]:
    return {pos: _count_records(root, f"data.{pos}") for pos in _SUFFIXES}


def _describe(synsets: dict[str, int]) -> str:
    return f"{sum(synsets.values()):,} synsets ({', '.join(f'{synsets[pos]:,} {pos}' for pos in _SUFFIXES)})"


def _count_records(root: _Root, name: str) -> int:
    """Complete lines of a database file; the licence at its head is indented by two spaces."""
    lines = _read(root, name).split(b"\n")
    return sum(not line.startswith(b"  ") for line in lines[:-1])


def _read(root: _Root, name: str) -> bytes:
    try:
        return root.joinpath(name).read_bytes()
    except Exception as error:  # a broken archive can fail in any way: zlib, zipfile and struct have their own
        raise _Defect(f"{name} cannot be read ({reason(error)})") from None
