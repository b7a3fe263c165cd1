"""Bring a file or an archive to disk whole, or not at all."""

from __future__ import annotations

import errno
import hashlib
import html
import http.client
import lzma
import os
import re
import shutil
import ssl
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import Request, urlopen

from hypo.files import locked

ATTEMPTS = 4  # in a row without a single new byte
PAUSE = 0.5  # seconds before the first new attempt, doubled each time
TIMEOUT = 30  # seconds of silence
BLOCK = 1 << 20  # bytes
LARGEST = 1 << 30  # bytes that an archive may unpack to, and GROWTH times its own size more
GROWTH = 50
BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, RuntimeError, OverflowError),  # zipfile: names that are no text, unknown or encrypted content, sizes
)
"""What the readers of archives raise about a damaged one."""
_TAIL, _MANY = (
    22 + 0xFFFF,
    0x10000,
)  # of a zip: bytes its end record can take, files from which on it cannot say how many


class DownloadError(OSError):
    """A file could not be fetched or unpacked; the message is one sentence that ends in the way to do it by hand."""


def fetch(url: str, destination: Path, *, bytes: int | None = None, md5: str | None = None) -> Path:
    """Download `url` to the file `destination`, unless it is there, and check its size and checksum.

    url     https://..., or drive:<id> for a file on Google Drive
    bytes   published size; md5 published checksum, 32 hex digits; None where none is published

    A file already at `destination` (put there by hand) is checked and kept. What arrives goes to `<destination>.part`,
    which a later call continues, and gets its name only when it is whole. Two processes may call this at once.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_name(destination.name + ".part")
    with _held(destination):
        if destination.exists():
            if wrong := _mismatch(destination, bytes, md5):
                raise DownloadError(f"{destination} {wrong}; delete or replace it and run the command again")
            return destination
        try:
            _download(url, part, bytes)
            if wrong := _mismatch(part, bytes, md5):
                part.unlink()
                raise DownloadError(f"what {browser_page(url)} serves {wrong}")
        except DownloadError as error:
            raise DownloadError(
                f"{error}; to go on by hand, open {browser_page(url)} in a browser, put the file at {destination} "
                "and run the command again"
            ) from error.__cause__
        part.replace(destination)
    return destination


def unpack(archive: Path, destination: Path, place: Callable[[str], Sequence[str]] = lambda name: [name]) -> Path:
    """Unpack a zip or tar archive into the new folder `destination`, which appears only when all of it is there.

    place   maps a file's name in the archive to where it goes under `destination`: nowhere, one place or several
    """
    from tqdm import tqdm

    with building(destination) as folder:
        if folder is None:
            return destination
        with intact(archive):
            for name, stream in tqdm(members(archive), f"unpacking {archive.name}", unit=" files", disable=None):
                first, *copies = [folder / p for p in place(name)] or [None]
                if first is not None:
                    first.parent.mkdir(parents=True, exist_ok=True)
                    with first.open("wb") as file:
                        shutil.copyfileobj(stream, file, BLOCK)
                for copy in copies:
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(first, copy)
    return destination


def members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each file of a zip or tar archive; a link, a device, a name that leads out and more content
    than an archive of images can hold are refused."""
    left = LARGEST + GROWTH * archive.stat().st_size
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            _refuse_missing(archive, len(opened.infolist()))
            for info in opened.infolist():
                _refuse_escape(archive, info.filename, plain=stat.S_IFMT(info.external_attr >> 16) in _PLAIN)
                left = _refuse_bomb(archive, left - info.file_size)
                if not info.is_dir():
                    with opened.open(info) as stream:
                        yield info.filename, stream
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as opened:
            for info in opened:
                _refuse_escape(archive, info.name, plain=info.isfile() or info.isdir())
                left = _refuse_bomb(archive, left - info.size)
                if info.isfile():
                    yield info.name, opened.extractfile(info)
            while opened.fileobj.read(BLOCK):  # to the end, where a compressed archive keeps its checksum
                pass
    else:
        raise DownloadError(f"{archive} is neither a zip nor a tar archive; delete it and run the command again")


def _refuse_missing(archive: Path, found: int) -> None:
    """Compare with the number of files at the end of a zip archive: zipfile stops at a damaged entry of its directory
    that hides those after it."""
    with archive.open("rb") as file:
        file.seek(-min(archive.stat().st_size, _TAIL), os.SEEK_END)
        end = file.read().rpartition(b"PK\5\6")[2]
    said = int.from_bytes(end[6:8], "little")
    if said not in (found % _MANY, _MANY - 1):  # more than it can say: the number, or nothing but ones, is what fits
        raise zipfile.BadZipFile(f"it says that it holds {said:,} files, and {found:,} are listed")


@contextmanager
def intact(archive: Path) -> Iterator[None]:
    """Say of an archive that breaks while it is read that it is damaged."""
    try:
        yield
    except DownloadError:
        raise
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # of the disk; what the readers raise has no number, or that of a place outside the file
        raise DownloadError(
            f"{archive} is damaged ({error}); delete it and run the command again to fetch it anew"
        ) from error


@contextmanager
def building(destination: Path) -> Iterator[Path | None]:
    """A temporary folder that becomes `destination` when the block succeeds; None when there is nothing left to do.

    A kill leaves no `destination`; what it leaves beside it is removed next time. One process at a time gets in.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with _held(destination):
        if destination.is_dir() and any(destination.iterdir()):
            yield None
            return
        staging = destination.with_name(f".{destination.name}.unpacking")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            yield staging
            staging.replace(destination)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _held(path: Path) -> AbstractContextManager[None]:
    """The lock of `path`, a hidden file beside it."""
    return locked(path.with_name(f".{path.name}.lock"), f"another process is at {path.name}; waiting for it to end")


def browser_page(url: str) -> str:
    """The address a person opens to get the file of `url`."""
    drive = url.removeprefix("drive:")
    return url if drive == url else f"https://drive.google.com/file/d/{drive}/view"


def _address(url: str) -> str:
    """The address a program asks for the file of `url`; `confirm` answers Drive's question about large files."""
    drive = url.removeprefix("drive:")
    query = urlencode({"id": drive, "export": "download", "confirm": "t"})
    return url if drive == url else f"https://drive.usercontent.google.com/download?{query}"


_PLAIN = (0, stat.S_IFREG, stat.S_IFDIR)  # 0: an archive that records no kinds


def _refuse_escape(archive: Path, name: str, plain: bool) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if not name:
        raise DownloadError(f"{archive} holds a file without a name; nothing was unpacked: get it anew")
    if path.is_absolute() or ".." in path.parts:
        raise DownloadError(
            f"{archive} holds {name!r}, which leads out of its folder; nothing was unpacked: get it anew"
        )
    if not plain:
        raise DownloadError(f"{archive} holds {name!r}, a link or device; nothing was unpacked: get it anew")


def _refuse_bomb(archive: Path, left: int) -> int:
    if left < 0:
        size = archive.stat().st_size
        raise DownloadError(f"{archive} would unpack to far more than its {size:,} bytes; it was not: get it anew")
    return left


def _mismatch(path: Path, size: int | None, md5: str | None) -> str:
    """What is wrong with the file, '' if nothing."""
    actual = path.stat().st_size
    if size is not None and actual != size:
        return f"has {actual:,} bytes instead of the published {size:,}"
    if md5 is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if digest != md5:
            return f"has the checksum {digest} instead of the published {md5}"
    return ""


def _download(url: str, part: Path, size: int | None) -> None:
    """Fill `part`, continuing what it holds, over as many connections as it takes while each brings something new."""
    best = failures = 0
    while True:
        try:
            _receive(url, part, size)
            return
        except (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException) as error:
            reached = part.stat().st_size if part.exists() else 0
            failures = 0 if reached > best else failures + 1
            best = max(best, reached)
            if failures == ATTEMPTS:
                raise DownloadError(f"{_address(url)} could not be reached or broke off ({error})") from error
            time.sleep(PAUSE * 2**failures)


def _receive(url: str, part: Path, size: int | None) -> None:
    """One connection's worth of the file, appended to `part` if the server can continue, else from the start."""
    from tqdm import tqdm

    have = part.stat().st_size if part.exists() else 0
    if size is not None and have == size:
        return
    with _open(_address(url), have) as response:
        start = have if response.headers.get("Content-Range", "").startswith(f"bytes {have}-") else 0
        if response.status == 206 and start != have:
            part.unlink()
            raise ConnectionError("the server continued at another place than asked")
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        if size is not None and total not in (None, size):
            raise DownloadError(f"{_address(url)} offers {total:,} bytes instead of the published {size:,}")
        name = part.name.removesuffix(".part")
        with (
            part.open("ab" if start else "wb") as file,
            tqdm(desc=name, total=total, initial=start, unit="B", unit_scale=True, disable=None) as bar,
        ):
            while block := response.read(BLOCK):
                file.write(block)
                bar.update(len(block))
        if total is not None and part.stat().st_size < total:
            raise ConnectionError(f"{part.stat().st_size:,} of {total:,} bytes arrived")


def _open(address: str, have: int, confirmed: bool = False) -> http.client.HTTPResponse:
    """The server's answer from byte `have` on, if it is a file; Drive's confirmation form is sent once."""
    headers = {"User-Agent": "hypo", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    if urlsplit(address).scheme not in ("https", "http"):
        raise DownloadError(f"{address} is no address on the web")
    try:
        response = urlopen(Request(address, headers=headers), timeout=TIMEOUT)  # noqa: S310 - checked above
    except HTTPError as error:
        error.close()
        if error.code == 416:  # `have` lies beyond the end, so it is of another file: from the start
            return _open(address, 0, confirmed)
        if error.code >= 500:
            raise ConnectionError(f"the server answered {error.code} {error.reason}") from error
        if error.code in (404, 410):
            raise DownloadError(f"the file is no longer at {address}") from error
        raise DownloadError(f"{address} refuses the file ({error.code} {error.reason})") from error
    except URLError as error:
        raise ConnectionError(error.reason) from error
    if address.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise DownloadError(f"{address} leads to {response.url}, which is not encrypted")
    if response.headers.get_content_type() != "text/html":
        return response
    with response:
        page = response.read(BLOCK).decode(errors="replace")
    form = re.search(r'<form[^>]*\bid="download-form"[^>]*>', page)
    action = form and re.search(r'\baction="([^"]+)"', form[0])
    if action and not confirmed:
        fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
        return _open(f"{urljoin(address, html.unescape(action[1]))}?{urlencode(fields)}", have, confirmed=True)
    if re.search("quota|too many users", page, re.IGNORECASE):
        raise DownloadError(f"Google Drive's quota for {address} is used up for now (it resets within a day)")
    raise DownloadError(f"{address} answered with a web page instead of the file")
