"""Downloads against a local server that misbehaves, archives that attack, and processes that are killed."""

import contextlib
import hashlib
import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hypo.data import download
from hypo.data.download import DownloadError, browser_page, fetch, unpack

CONTENT = bytes(range(256)) * 1024  # 256 KiB
MD5 = hashlib.md5(CONTENT).hexdigest()
FORM = """<html>Google Drive can't scan this file for viruses.<form id="download-form" action="/confirmed" method="get">
<input type="hidden" name="id" value="abc"><input type="hidden" name="confirm" value="t"></form></html>"""


class Server(BaseHTTPRequestHandler):
    """The path names the behaviour: /range, /norange, /breaks, ... ; `log` keeps (path, Range header)."""

    log: list  # set by the fixture

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.log.append((path, self.headers.get("Range")))
        visits = sum(p == path for p, _ in self.log)
        wanted = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        match path:
            case "/range":
                self.file(wanted)
            case "/norange":
                self.file(0)
            case "/breaks":  # every connection closes after 60,000 bytes
                self.file(wanted, stop=60_000)
            case "/breaks-norange":  # only the third connection gets to the end
                self.file(0, stop=100_000 if visits < 3 else None)
            case "/truncated":
                self.file(0, stop=100_000)
            case "/slow":
                self.file(wanted, pause=0.02)
            case "/elsewhere":  # continues at another byte than asked, then behaves
                self.file(max(0, wanted - 1) if visits == 1 else wanted)
            case "/busy" if visits < 3:
                self.send_error(503)
            case "/busy":
                self.file(0)
            case "/confirm":
                self.page(FORM)
            case "/confirmed" if query == "id=abc&confirm=t":
                self.file(wanted)
            case "/quota":
                self.page("<html>Google Drive - Quota exceeded. Too many users have viewed this file recently.</html>")
            case "/html":
                self.page("<html>Welcome</html>")
            case "/gone":
                self.send_error(410)
            case "/forbidden":
                self.send_error(403)
            case _:
                self.send_error(404)

    def file(self, start: int, stop: int | None = None, pause: float = 0) -> None:
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        body = CONTENT[start:] if stop is None else CONTENT[start : start + stop]
        for at in range(0, len(body), 8192):
            self.wfile.write(body[at : at + 8192])
            self.wfile.flush()
            time.sleep(pause)
        self.close_connection = True

    def page(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_) -> None:
        pass

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client was killed
            super().handle()


@pytest.fixture
def server(monkeypatch):
    """(address, log) of a running server."""
    monkeypatch.setattr(download, "PAUSE", 0.01)
    monkeypatch.setattr(download, "BLOCK", 16_384)
    log = []
    running = ThreadingHTTPServer(("127.0.0.1", 0), type("Logged", (Server,), {"log": log}))
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}", log
    running.shutdown()
    thread.join()
    running.server_close()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("path", ["range", "norange", "breaks", "breaks-norange", "busy", "confirm"])
def test_the_file_arrives_whole_whatever_the_connection_does(server, tmp_path, path):
    got = fetch(f"{server[0]}/{path}", tmp_path / "new" / "f", bytes=len(CONTENT), md5=MD5)
    assert got.read_bytes() == CONTENT
    assert names(got.parent) == {"f"}


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_broken_download_is_continued_from_where_it_stopped(server, tmp_path, size):
    (tmp_path / "f.part").write_bytes(CONTENT[:100_000])
    fetch(f"{server[0]}/range", tmp_path / "f", bytes=size, md5=MD5)
    assert server[1] == [("/range", "bytes=100000-")]
    assert (tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["norange", "elsewhere"])
def test_a_server_that_cannot_continue_starts_again(server, tmp_path, path):
    (tmp_path / "f.part").write_bytes(b"x" * 100_000)  # would show in the content if it were kept
    assert fetch(f"{server[0]}/{path}", tmp_path / "f", md5=MD5).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_dropped(server, tmp_path):
    (tmp_path / "f.part").write_bytes(b"x" * (len(CONTENT) + 1))
    assert fetch(f"{server[0]}/range", tmp_path / "f").read_bytes() == CONTENT


def test_every_broken_connection_is_continued_not_restarted(server, tmp_path):
    fetch(f"{server[0]}/breaks", tmp_path / "f", md5=MD5)
    starts = [int((wanted or "bytes=0-")[6:-1]) for _, wanted in server[1]]
    assert starts == sorted(starts) and len(starts) == -(-len(CONTENT) // 60_000)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("missing", "no longer at"),
        ("gone", "no longer at"),
        ("forbidden", "refuses the file (403"),
        ("quota", "quota"),
        ("html", "web page instead of the file"),
        ("truncated", "broke off"),
    ],
)
def test_each_failure_is_one_sentence_with_the_way_by_hand(server, tmp_path, path, says):
    url = f"{server[0]}/{path}"
    with pytest.raises(DownloadError) as error:
        fetch(url, tmp_path / "f")
    message = str(error.value)
    assert says in message and "\n" not in message
    assert f"open {url} in a browser" in message and f"put the file at {tmp_path / 'f'}" in message
    assert names(tmp_path) <= {"f.part"}


def test_no_network_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0)
    with pytest.raises(DownloadError, match=r"could not be reached.*open http://127.0.0.1:9/f in a browser"):
        fetch("http://127.0.0.1:9/f", tmp_path / "f")
    assert names(tmp_path) == set()


def test_a_wrong_checksum_or_size_leaves_nothing_to_continue(server, tmp_path):
    with pytest.raises(DownloadError, match=rf"checksum {MD5} instead of the published {'0' * 32}; .*by hand"):
        fetch(f"{server[0]}/range", tmp_path / "f", md5="0" * 32)
    with pytest.raises(DownloadError, match=r"offers 262,144 bytes instead of the published 5; .*by hand"):
        fetch(f"{server[0]}/range", tmp_path / "f", bytes=5)
    assert names(tmp_path) == set()


def test_a_file_put_there_by_hand_is_taken_and_checked(server, tmp_path):
    (tmp_path / "f").write_bytes(CONTENT)
    assert fetch(f"{server[0]}/range", tmp_path / "f", bytes=len(CONTENT), md5=MD5).read_bytes() == CONTENT
    (tmp_path / "f").write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(DownloadError, match="delete or replace it"):
        fetch(f"{server[0]}/range", tmp_path / "f", bytes=len(CONTENT), md5=MD5)
    assert (tmp_path / "f").exists() and server[1] == []


def test_many_at_once_download_once(server, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: fetch(f"{server[0]}/slow", tmp_path / "f", md5=MD5), range(4)))
    assert len(server[1]) == 1 and names(tmp_path) == {"f"}


def test_a_drive_id_is_asked_for_with_its_confirmation_and_shown_as_a_page():
    assert (
        download._address("drive:abc")
        == "https://drive.usercontent.google.com/download?id=abc&export=download&confirm=t"
    )
    assert browser_page("drive:abc") == "https://drive.google.com/file/d/abc/view"


def killed(code: str, seen) -> None:
    """Run `code` in a process of its own and kill -9 it as soon as `seen()` holds."""
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) as process:
        while not seen():
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)


def test_a_killed_download_leaves_nothing_under_its_name_and_is_continued(server, tmp_path):
    part = tmp_path / "f.part"
    code = f"""
        from pathlib import Path
        from hypo.data import download
        download.BLOCK = 8192
        download.fetch("{server[0]}/slow", Path("{tmp_path}/f"))
    """
    killed(code, lambda: part.exists() and part.stat().st_size > 50_000)
    assert not (tmp_path / "f").exists()
    have = part.stat().st_size
    assert CONTENT.startswith(part.read_bytes()) and have < len(CONTENT)
    fetch(f"{server[0]}/range", tmp_path / "f", md5=MD5)
    assert server[1][-1] == ("/range", f"bytes={have}-") and names(tmp_path) == {"f"}


def test_a_killed_unpack_leaves_nothing_and_the_next_one_all(tmp_path):
    files = {f"top/d{i % 7}/{i}.txt": str(i).encode() for i in range(300)}
    archive = tar_of(tmp_path / "a.tar.gz", files)
    code = f"""
        import time
        from pathlib import Path
        from hypo.data.download import unpack
        unpack(Path("{archive}"), Path("{tmp_path}/out"), lambda name: [time.sleep(0.01) or name])
    """
    killed(code, lambda: sum(1 for _ in tmp_path.glob(".out.unpacking/top/*/*")) > 20)
    assert not (tmp_path / "out").exists()
    unpack(archive, tmp_path / "out")
    assert {
        p.relative_to(tmp_path / "out").as_posix(): p.read_bytes() for p in (tmp_path / "out").rglob("*.txt")
    } == files
    assert names(tmp_path) == {"a.tar.gz", "out"}


def tar_of(path: Path, files: dict[str, bytes], *special: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in special:
            archive.addfile(info)
    return path


def zip_of(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "make",
    [lambda p, f: tar_of(p / "a.tar.gz", f), lambda p, f: tar_of(p / "a.tar", f), lambda p, f: zip_of(p / "a.zip", f)],
)
def test_unpack_places_each_file_nowhere_once_or_several_times(tmp_path, make):
    archive = make(tmp_path, {"a/1": b"one", "a/2": b"two", "b/3": b"three"})
    where = {"a/1": [], "a/2": ["x"], "b/3": ["y/3", "z/3"]}
    unpack(archive, tmp_path / "out", where.get)
    got = {
        p.relative_to(tmp_path / "out").as_posix(): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()
    }
    assert got == {"x": b"two", "y/3": b"three", "z/3": b"three"}


@pytest.mark.parametrize("make", [lambda p, f: tar_of(p / "a.tar.gz", f), lambda p, f: zip_of(p / "a.zip", f)])
@pytest.mark.parametrize("name", ["../x", "ok/../../x", "/tmp/hypo-escaped", "..\\x"])
def test_names_that_lead_out_are_refused(tmp_path, make, name):
    (tmp_path / "in").mkdir()
    archive = make(tmp_path, {"fine": b"1", name: b"2"})
    with pytest.raises(DownloadError, match=r"leads out of its folder; nothing was unpacked"):
        unpack(archive, tmp_path / "in" / "out")
    assert names(tmp_path / "in") == set() and not (tmp_path / "x").exists() and not Path("/tmp/hypo-escaped").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    info = tarfile.TarInfo("trap")
    info.type, info.linkname = kind, "../../etc/passwd"
    archive = tar_of(tmp_path / "a.tar", {"fine": b"1"}, info)
    with pytest.raises(DownloadError, match="'trap', a link or device; nothing was unpacked"):
        unpack(archive, tmp_path / "out")
    assert names(tmp_path) == {"a.tar"}


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("trap")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DownloadError, match="a link or device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert names(tmp_path) == {"a.zip"}


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar"])
def test_a_damaged_archive_is_named_and_leaves_nothing(tmp_path, name):
    content = {f"d/{i}": os.urandom(5000) for i in range(20)}
    archive = (zip_of if name == "a.zip" else tar_of)(tmp_path / name, content)
    whole = archive.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    damages = [whole[: len(whole) // 2], b"no archive"] + ([] if name == "a.tar" else [bytes(flipped)])
    for damage in damages:
        archive.write_bytes(damage)
        with pytest.raises(DownloadError, match=f"{name} .*delete it and run the command again"):
            unpack(archive, tmp_path / "out")
        assert names(tmp_path) == {name}


def test_a_flipped_bit_in_the_directory_of_a_zip_hides_no_file(tmp_path):
    content = {f"d/{i}": bytes([i]) * 9 for i in range(3)}
    whole = zip_of(tmp_path / "a.zip", content).read_bytes()
    refused = 0
    for bit in range(8 * whole.index(b"PK\1\2"), 8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "a.zip").write_bytes(flipped)
        try:
            found = unpack(tmp_path / "a.zip", tmp_path / str(bit))
        except DownloadError:
            refused += 1
        else:
            assert {str(path.relative_to(found)): path.read_bytes() for path in found.glob("d/*")} == content
    assert refused > 100


def test_a_zip_of_more_files_than_its_end_can_say_is_unpacked(tmp_path):
    archive = zip_of(tmp_path / "a.zip", {f"{i}": b"" for i in range(65_537)})
    assert sum(1 for _ in download.members(archive)) == 65_537


def test_two_at_once_unpack_once_and_a_folder_that_is_there_is_kept(tmp_path):
    archive = zip_of(tmp_path / "a.zip", {f"d/{i}": b"x" for i in range(200)})
    with ThreadPoolExecutor(2) as pool:
        outs = list(pool.map(lambda _: unpack(archive, tmp_path / "out"), range(2)))
    assert len(list(outs[0].rglob("?*"))) == 201 and names(tmp_path) == {"a.zip", "out"}
    (tmp_path / "out" / "mine").touch()
    assert (unpack(archive, tmp_path / "out") / "mine").exists()


def test_a_download_does_not_leave_https(tmp_path, monkeypatch):
    class Answer(io.BytesIO):
        url = "http://example.org/file"

    monkeypatch.setattr(download, "urlopen", lambda *_, **__: Answer(b"content"))
    with pytest.raises(DownloadError, match=r"leads to http://example.org/file, which is not encrypted"):
        fetch("https://example.org/file", tmp_path / "file")
    with pytest.raises(DownloadError, match="is no address on the web"):
        fetch("file:///etc/passwd", tmp_path / "file")
    assert not (tmp_path / "file").exists()
