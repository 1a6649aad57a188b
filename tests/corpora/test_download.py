"""Downloads from a server of this machine: cut, continued, replaced meanwhile, wrong."""

from __future__ import annotations

import hashlib
import io
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.commands import truneg_data

from truneg_fairseq.corpora import download as download_module
from truneg_fairseq.corpora.download import CORPORA, Remote, download, download_corpus
from truneg_fairseq.errors import TrueNegError

CONTENT = bytes(range(256)) * 1_000
CHUNKED = ("Transfer-Encoding", "chunked")


class Server(ThreadingHTTPServer):
    """Serves ``files``, with ``lengths`` or in chunks; answers are cut after ``cut`` bytes while ``cuts`` lasts."""

    files: dict[str, bytes]
    cuts = 0
    cut = 100_000
    ranges = True
    tag: str | None = '"1"'
    lengths = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.seen: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.seen.append((self.path, wanted))
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if wanted and server.ranges and self.headers.get("If-Range") == server.tag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        self.send_header(*(("Content-Length", str(len(content) - start)) if server.lengths else CHUNKED))
        if server.tag:
            self.send_header("ETag", server.tag)
        self.end_headers()
        body = content[start:]
        end = b"" if server.lengths else b"0\r\n\r\n"
        if server.cuts:
            server.cuts -= 1
            body, end = body[: server.cut], b""
        self.wfile.write(body if server.lengths else b"%x\r\n%b\r\n" % (len(body), body))
        self.wfile.write(end)
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setattr(download_module, "_WAIT_SECONDS", 0)
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def remote(server: Server, content: bytes = CONTENT, name: str = "/a.bin") -> Remote:
    server.files.setdefault(name, content)
    return Remote(f"{server.address}{name}", f"sha256:{hashlib.sha256(content).hexdigest()}")


def fails(message: str, call: Callable, *arguments: object, **options: object) -> None:
    with pytest.raises(TrueNegError, match=message) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("lengths", [True, False])
def test_cuts_are_continued(lengths, server, tmp_path):
    server.cuts, server.lengths = 2, lengths
    path = download(remote(server), tmp_path / "a.bin")
    assert path.read_bytes() == CONTENT
    assert server.seen == [("/a.bin", None), ("/a.bin", "bytes=100000-"), ("/a.bin", "bytes=200000-")]
    assert list(tmp_path.iterdir()) == [path]
    download(remote(server), path)
    assert len(server.seen) == 3


def test_a_later_run_continues(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "ATTEMPTS", 2)
    server.cuts, server.cut = 10**6, 0
    fails(
        r"a\.bin: cannot be downloaded \(the connection was cut\); run again to continue",
        download,
        remote(server),
        tmp_path / "a.bin",
    )
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:70_000])
    (tmp_path / "a.bin.part.json").write_text('"\\"1\\""')
    server.cuts = 0
    download(remote(server), tmp_path / "a.bin")
    assert server.seen[-1] == ("/a.bin", "bytes=70000-")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("change", ["newer", "no ranges", "no tag"])
def test_what_cannot_be_continued_starts_again(change, server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(b"x" * 70_000)
    (tmp_path / "a.bin.part.json").write_text(
        "null" if change == "no tag" else '"\\"0\\""' if change == "newer" else '"\\"1\\""'
    )
    server.ranges = change != "no ranges"
    download(remote(server), tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_killed_between_the_last_byte_and_the_check(server, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    (tmp_path / "a.bin.part.json").write_text('"\\"1\\""')
    download(remote(server), tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    (tmp_path / "b.bin.part").write_bytes(CONTENT + b"more")
    (tmp_path / "b.bin.part.json").write_text('"\\"1\\""')
    download(remote(server), tmp_path / "b.bin")
    assert (tmp_path / "b.bin").read_bytes() == CONTENT


def test_wrong_checksums_are_no_file(server, tmp_path):
    wrong = Remote(remote(server).url, f"sha256:{'0' * 64}")
    fails(
        r"a\.bin\.part: sha256 is [0-9a-f]{64}, expected 0{64} as published; it is removed",
        download,
        wrong,
        tmp_path / "a.bin",
    )
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.bin").write_bytes(b"other")
    fails(r"a\.bin: sha256 is .*; remove it and run again", download, remote(server), tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"other"


def test_servers_that_fail(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "ATTEMPTS", 2)
    missing = Remote(f"{server.address}/none", "sha1:0")
    fails("none: the server answers 404 Not Found; see --mirror", download, missing, tmp_path / "none")
    fails(
        "cannot be downloaded .*Connection refused", download, Remote("http://127.0.0.1:1/x", "sha1:0"), tmp_path / "x"
    )
    fails("ftp://x: expected an address with http", download, Remote("ftp://x", "sha1:0"), tmp_path / "x")


def test_a_file_got_another_way_is_taken_and_a_folder_that_is_gone_is_named(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "ATTEMPTS", 1)
    (tmp_path / "out").mkdir()
    server.cuts, server.cut = 10**6, 0
    advice = r"get the file another way and put it into --output-dir"
    fails(advice, download, remote(server), tmp_path / "out" / "a.bin")
    assert (tmp_path / "out").is_dir()
    (tmp_path / "out" / "a.bin").write_bytes(CONTENT)
    assert download(remote(server), tmp_path / "out" / "a.bin").read_bytes() == CONTENT
    server.cuts = 0
    fails(r"gone/a\.bin\.part.*: cannot be written", download, remote(server), tmp_path / "gone" / "a.bin")

    def disappear(url, part, bar):
        shutil.rmtree(part.parent)

    monkeypatch.setattr(download_module, "_fetch", disappear)
    fails(r"out/b\.bin\.part: cannot be read", download, remote(server, name="/b.bin"), tmp_path / "out" / "b.bin")


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1/a", "http://[x]/a", "http://a b/c", "http://a:99999/c", "http://a:x/c", "http:///c"),
        *("http://\u2100.com/c", "http://" + "a" * 300 + ".com/c", "https://a\x00/c", "http://a\n/c"),
    ],
)
def test_odd_addresses_are_one_line(url, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "ATTEMPTS", 1)
    with pytest.raises(TrueNegError) as caught:
        download(Remote(url, "sha1:0"), tmp_path / "a")
    assert "is no address" in str(caught.value) or "cannot be downloaded" in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_wikitext_is_unpacked(server, tmp_path, monkeypatch, capsys):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("wikitext-2-raw/", "")
        for split in ("train", "valid", "test"):
            made.writestr(f"wikitext-2-raw/wiki.{split}.raw", split)
    for content in (packed.getvalue(), b"no zip"):
        server.files["/m/wikitext-2-raw-v1.zip"] = content
        known = remote(server, content, "/m/wikitext-2-raw-v1.zip").checksum
        monkeypatch.setitem(CORPORA, "wikitext-2", Remote(CORPORA["wikitext-2"].url, known))
        flags = ("--corpus", "wikitext-2", "--output-dir", tmp_path, "--mirror", f"{server.address}/m/")
        if content == b"no zip":
            (tmp_path / "wikitext-2-raw-v1.zip").unlink()
            for file in (tmp_path / "wikitext-2").iterdir():
                file.unlink()
            (tmp_path / "wikitext-2").rmdir()
            fails(r"wikitext-2-raw-v1\.zip: is not a zip file", truneg_data, "download-corpus", *flags)
            assert not (tmp_path / "wikitext-2").exists()
        else:
            for _ in range(2):
                truneg_data("download-corpus", *flags)
                files = [tmp_path / "wikitext-2" / f"wiki.{split}.raw" for split in ("test", "train", "valid")]
                assert capsys.readouterr().out.splitlines() == list(map(str, files))
                assert [file.read_text() for file in files] == ["test", "train", "valid"]


def test_a_mirrors_files_are_those_of_the_origin(server, tmp_path):
    """Whatever checksums the mirror has: the origin's are in the package."""
    server.files = {"/m/openwebtext.tar.xz": CONTENT, "/m/openwebtext.tar.xz.sha256": CONTENT}
    flags = ("--corpus", "openwebtext", "--mirror", f"{server.address}/m", "--output-dir", tmp_path)
    expected = CORPORA["openwebtext"].checksum.removeprefix("sha256:")
    fails(rf"expected {expected} as published; it is removed", truneg_data, "download-corpus", *flags)
    assert list(tmp_path.iterdir()) == []


def test_wikipedias_dumps_are_those_it_lists(server, tmp_path, capsys, caplog):
    folder = "/xxwiki/20240101"
    parts = {f"xxwiki-20240101-pages-articles{n}.xml-p{n}p{n}9.bz2": b"part %d" % n for n in (1, 2)}
    others = {"xxwiki-20240101-pages-articles.xml.bz2": b"all", "xxwiki-20240101-pages-meta-current.xml.bz2": b"meta"}

    def publish(files: dict[str, bytes]) -> None:
        sums = "".join(f"{hashlib.sha1(content).hexdigest()}  {name}\n" for name, content in files.items())
        server.files = {f"{folder}/{name}": content for name, content in files.items()}
        server.files[f"{folder}/xxwiki-20240101-sha1sums.txt"] = sums.encode()

    flags = ("--corpus", "wikipedia", "--language", "xx", "--mirror", server.address, "--output-dir")
    for name, files, expected in (("a", parts | others, parts), ("b", others, dict([*others.items()][:1]))):
        publish(files)
        truneg_data("download-corpus", *flags, tmp_path / name, "--date", "20240101")
        assert capsys.readouterr().out.splitlines() == [str(tmp_path / name / file) for file in sorted(expected)]
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == expected
    # A list that was cut is not taken for a dump of fewer parts.
    publish(parts)
    listed = server.files[f"{folder}/xxwiki-20240101-sha1sums.txt"]
    server.lengths, server.cuts, server.cut = False, 1, listed.index(b"\n") + 1
    truneg_data("download-corpus", *flags, tmp_path / "cut", "--date", "20240101")
    assert len(capsys.readouterr().out.splitlines()) == len(parts)
    publish({"xxwiki-20240101-pages-meta-current.xml.bz2": b"meta"})
    fails(
        "sha1sums.txt: lists no xxwiki-20240101-pages-articles",
        truneg_data,
        "download-corpus",
        *flags,
        tmp_path / "c",
        "--date",
        "20240101",
    )
    assert "the checksums are the mirror's own; they tell a cut file, not another one" in caplog.text
    # What cannot be had is put into the folder by hand, as the message advises: the list and the files.
    server.files = {}
    fails("the server answers 404", truneg_data, "download-corpus", *flags, tmp_path / "d", "--date", "20240101")
    (name,), content = [*others][:1], b"all"
    (tmp_path / "d" / name).write_bytes(content)
    by_hand = tmp_path / "d" / "xxwiki-20240101-sha1sums.txt"
    by_hand.write_text(f"{hashlib.sha1(content).hexdigest()}  {name}\n")
    capsys.readouterr()
    truneg_data("download-corpus", *flags, tmp_path / "d", "--date", "20240101")
    assert capsys.readouterr().out == f"{tmp_path / 'd' / name}\n"
    by_hand.write_text("<html>\n")
    fails("is no list of checksums", truneg_data, "download-corpus", *flags, tmp_path / "d", "--date", "20240101")
    for date in ("latest", "2024"):
        fails(
            rf"--date {date}: expected the dump's, YYYYMMDD",
            truneg_data,
            "download-corpus",
            *flags,
            tmp_path / "c",
            "--date",
            date,
        )
    fails("--date None: expected the dump's", truneg_data, "download-corpus", *flags, tmp_path / "c")


def test_the_checksums_are_whole(tmp_path):
    for name in ("wikitext-2", "wikitext-103", "openwebtext"):
        assert len(CORPORA[name].checksum.removeprefix("sha256:")) == 64
    fails("--corpus x: expected wikipedia, wikitext-2", download_corpus, "x", tmp_path)
    for option in ({"language": "fr"}, {"date": "20240101"}):
        fails("is of --corpus wikipedia; wikitext-2 has one", download_corpus, "wikitext-2", tmp_path, **option)
