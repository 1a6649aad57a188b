"""Downloads of corpora: continued where they were cut, and checked against the published checksums."""

from __future__ import annotations

import http.client
import json
import logging
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..errors import reason as reason_of
from ..files import file_digest, make_output_folder, replacing_text, writing
from ..progress import Progress
from ..schema import read_json

_logger = logging.getLogger(__name__)

ATTEMPTS = 5
"""Tries without a byte of progress before a download fails."""

_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60
_WAIT_SECONDS = 1.0
_WIKIPEDIA = "https://dumps.wikimedia.org"


@dataclass(frozen=True)
class Remote:
    """One file to download."""

    url: str  # http or https
    checksum: str  # "sha256:..." or "sha1:...", as published

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


CORPORA = {
    "wikitext-2": Remote(
        "https://wikitext.smerity.com/wikitext-2-raw-v1.zip",
        "sha256:ef7edb566e3e2b2d31b29c1fdb0c89a4cc683597484c3dc2517919c615435a11",
    ),
    "wikitext-103": Remote(
        "https://wikitext.smerity.com/wikitext-103-raw-v1.zip",
        "sha256:91c00ae287f0d699e18605c84afc9e45c192bc6b7797ff8837e5474655a33794",
    ),
    "openwebtext": Remote(
        "https://zenodo.org/record/3834942/files/openwebtext.tar.xz",
        "sha256:9fe39d154c5bc67da8c359415372b79510eb1e2edb0d035fe4f7fc3a732b9336",
    ),
}
"""Corpora of one file. Wikipedia's files and checksums are listed by its dumps."""


def download_corpus(
    corpus: str, output_dir: Path, *, mirror: str | None = None, language: str | None = None, date: str | None = None
) -> list[Path]:
    """Downloads a corpus as it is published; a ``.zip`` is unpacked. What is there already is kept.

    Args:
        corpus: one of :data:`CORPORA`, or "wikipedia".
        output_dir: the folder to write; made where it is missing.
        mirror: the address of a folder to take the files from instead.
        language: of Wikipedia; None for English.
        date: of Wikipedia's dump, YYYYMMDD.

    Returns:
        The files.
    """
    make_output_folder(output_dir)
    if corpus == "wikipedia":
        dump = _wikipedia_dump(mirror, language or "en", date, output_dir)
        return [download(remote, output_dir / remote.name) for remote in dump]
    if corpus not in CORPORA:
        raise TrueNegError(f"--corpus {corpus}: expected wikipedia, {', '.join(CORPORA)}")
    for name, value in (("language", language), ("date", date)):
        if value is not None:
            raise TrueNegError(f"--{name} {value}: is of --corpus wikipedia; {corpus} has one version, leave it out")
    remote = CORPORA[corpus]
    if mirror is not None:
        remote = Remote(f"{mirror.rstrip('/')}/{remote.name}", remote.checksum)
    path = download(remote, output_dir / remote.name)
    return _unpack(path, output_dir / corpus) if path.suffix == ".zip" else [path]


def download(remote: Remote, path: Path) -> Path:
    """Downloads a file, from where an earlier try was cut; it appears once its checksum is right.

    Args:
        remote: what.
        path: the file to make. One that is there is checked and kept.
    """
    if path.exists():
        _check(remote, path, "remove it and run again")
        return path
    part = path.with_name(f"{path.name}.part")
    with Progress(desc=path.name, unit="B", unit_scale=True) as bar:
        _fetch(remote.url, part, bar)
    try:
        _check(remote, part, "it is removed; run again")
    except TrueNegError:
        part.unlink(missing_ok=True)
        raise
    finally:
        if not part.exists():
            _validator_path(part).unlink(missing_ok=True)
    with writing(path):
        part.replace(path)
    _validator_path(part).unlink(missing_ok=True)
    return path


def _fetch(url: str, part: Path, bar: Progress) -> None:
    """Downloads until the file is whole."""
    failures = 0
    while True:
        before = _size(part)
        try:
            if _fetch_some(url, part, bar):
                return
            reason = "the connection was cut"
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise TrueNegError(f"{url}: the server answers {error.code} {error.reason}; see --mirror") from None
            reason = f"{error.code} {error.reason}"
        except (ValueError, http.client.InvalidURL) as error:  # UnicodeError among them
            raise TrueNegError(f"{url}: is no address ({reason_of(error)}); expected https://HOST/...") from None
        except http.client.IncompleteRead:  # of a body that comes without its length
            reason = "the connection was cut"
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", "") or error or type(error).__name__)
        failures = 0 if _size(part) > before else failures + 1
        if failures >= ATTEMPTS:
            raise TrueNegError(
                f"{url}: cannot be downloaded ({reason}); run again to continue, see --mirror, or get the file "
                "another way and put it into --output-dir"
            )
        time.sleep(_WAIT_SECONDS * failures)


def _fetch_some(url: str, part: Path, bar: Progress) -> bool:
    """Downloads what one connection gives; whether the file is whole now."""
    have = _size(part)
    validator = _read_validator(part)
    headers = {"User-Agent": "truneg_fairseq"}
    if have and validator:
        # The rest of the same file, or the whole of a newer one.
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    try:
        response = _open(url, headers)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return error.headers.get("Content-Range") == f"bytes */{have}" or _restart(part)
        raise
    with response:
        continued = response.status == http.HTTPStatus.PARTIAL_CONTENT
        start = have if continued else 0
        length = response.headers.get("Content-Length")
        _write_validator(part, response.headers.get("ETag") or response.headers.get("Last-Modified"))
        bar.total = start + int(length) if length else None
        bar.update(start - bar.n)
        with part.open("ab" if continued else "wb") as stream:
            while block := response.read1(_BLOCK_BYTES):
                with writing(part):
                    stream.write(block)
                    stream.flush()
                bar.update(len(block))
    return bar.total is None or _size(part) == bar.total


def _open(url: str, headers: dict[str, str]) -> Any:
    if not url.startswith(("http://", "https://")):
        raise TrueNegError(f"{url}: expected an address with http:// or https://")
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_SECONDS)


def _restart(part: Path) -> bool:
    """Forgets what cannot be continued."""
    part.unlink()
    return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _validator_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _read_validator(part: Path) -> str | None:
    """The server's identifier of the version that ``part`` was downloaded from."""
    try:
        found = read_json(_validator_path(part), str, expected="a server's name of a version")
    except TrueNegError:
        return None
    return None if found.startswith("W/") else found  # HTTP forbids weak ones here


def _write_validator(part: Path, validator: str | None) -> None:
    with replacing_text(_validator_path(part)) as stream:
        json.dump(validator, stream)


def _check(remote: Remote, path: Path, advice: str) -> None:
    kind, _, expected = remote.checksum.partition(":")
    if (found := file_digest(path, kind)) != expected:
        raise TrueNegError(f"{path}: {kind} is {found}, expected {expected} as published; {advice}")


def _wikipedia_dump(mirror: str | None, language: str, date: str | None, output_dir: Path) -> list[Remote]:
    """The files of a dump's articles: in several parts where there are, which are extracted in parallel."""
    if date is None or not re.fullmatch(r"\d{8}", date):
        raise TrueNegError(f"--date {date}: expected the dump's, YYYYMMDD, as listed at {_WIKIPEDIA}/{language}wiki/")
    wiki = f"{language}wiki"
    folder = f"{(mirror or _WIKIPEDIA).rstrip('/')}/{wiki}/{date}"
    if mirror is not None:
        _logger.warning(f"{folder}: the checksums are the mirror's own; they tell a cut file, not another one")
    sums = _published_sums(f"{folder}/{wiki}-{date}-sha1sums.txt", output_dir)
    prefix = rf"{re.escape(wiki)}-{date}-pages-articles"
    for pattern in (rf"{prefix}\d+\.xml(-p\d+p\d+)?\.bz2", rf"{prefix}\.xml\.bz2"):
        found = [(name, digest) for digest, name in sums if re.fullmatch(pattern, name)]
        if found:
            return [Remote(f"{folder}/{name}", f"sha1:{digest}") for name, digest in sorted(found)]
    raise TrueNegError(f"{folder}/{wiki}-{date}-sha1sums.txt: lists no {wiki}-{date}-pages-articles.xml.bz2")


def _published_sums(url: str, output_dir: Path) -> list[list[str]]:
    """SHA-1 and name of each file of a dump: of the list in the folder where there is one, else of the server's."""
    with tempfile.TemporaryDirectory() as temporary, Progress(disable=True) as bar:
        path = output_dir / url.rpartition("/")[2]
        if not path.exists():
            path = Path(temporary) / path.name
            _fetch(url, path, bar)
        try:
            lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise TrueNegError(f"{path}: cannot be read ({reason_of(error)}); expected SHA-1 and name a line") from None
    if any(len(line) != 2 for line in lines):
        raise TrueNegError(f"{url}: is no list of checksums; expected SHA-1 and name a line")
    return lines


def _unpack(archive: Path, folder: Path) -> list[Path]:
    """The files of a zip, flat in a folder that appears whole or not at all."""
    if not folder.exists():
        with writing(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
            made = Path(temporary) / folder.name
            made.mkdir()
            try:
                with zipfile.ZipFile(archive) as content:
                    for member in content.infolist():
                        name = Path(member.filename).name
                        if not member.is_dir():
                            with content.open(member) as source, (made / name).open("wb") as target:
                                shutil.copyfileobj(source, target)
            except zipfile.BadZipFile as error:
                raise TrueNegError(f"{archive}: is not a zip file ({error}); remove it and run again") from None
            made.rename(folder)
    return sorted(folder.iterdir())
