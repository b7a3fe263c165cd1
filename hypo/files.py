"""Files that appear whole or not at all, and locks between processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import filelock


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with ~ filled in; as it is where there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to; it takes its name once it is complete and on disk, and leaves nothing when it fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:  # a full disk names no file by itself
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Put `content` at `path`: a kill at any moment leaves the old file or the new one."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def locked(path: Path, waiting: str | None) -> Iterator[None]:
    """Hold the lock file at `path`; it falls when the process ends, however it ends. `waiting` is said before a wait;
    None raises an OSError instead of waiting.

    The file is removed while the lock is held: whoever waited at it finds that out and makes a new one.
    """
    lock = filelock.FileLock(path)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        if waiting is None:
            raise
        print(waiting, file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def _sync(folder: Path) -> None:
    """Make the names of the files in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
