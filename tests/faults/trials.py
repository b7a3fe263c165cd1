"""Trials under hostile conditions. Each does one thing to the library, several times over, and then asks: is any record
lost or half-written, is any number wrong, does the work go on, is an error one sentence?

A trial takes a folder of its own and a source of chance; it returns how many faults it caused and what came of them,
and raises AssertionError when something was lost or wrong.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from multiprocessing.process import BaseProcess
from pathlib import Path

import nbformat
import numpy as np
from data.test_download import CONTENT, MD5, Server, tar_of, zip_of
from made import a_record
from own_folder import folder_of
from test_book import write as write_book
from training.helpers import SERVER, die_beside_rename, die_in_write, outcome, same, start

from hypo import records
from hypo.data import cache, download
from hypo.data.folders import scan

Trial = Callable[[Path, random.Random], tuple[int, str]]
RUN = {"epochs": 2}
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
UNDISTURBED = "the record of the undisturbed run"
SENTENCE = "one sentence, and then the record of the undisturbed run"


@functools.cache
def expected(folder: Path) -> tuple[dict, float]:
    """What a run leaves behind that nothing happens to, and how many seconds it is at work; once per process."""
    folder.mkdir()
    process = start(folder, (folder / "begun").touch, **RUN)
    _wait_for(folder / "begun", process)
    begun = time.monotonic()
    process.join()
    return outcome(folder), time.monotonic() - begun


def _agrees(folder: Path) -> None:
    """Let the run in `folder` end, and compare."""
    process = start(folder, **RUN)
    process.join()
    assert process.exitcode == 0, (folder / "log").read_text()[-2000:]
    undisturbed, _ = expected(folder.parent / "undisturbed")
    assert same(outcome(folder), undisturbed), "another record than the undisturbed run's"
    assert not [*folder.glob("records/.*.tmp")], "a half-written file was left"
    assert not [*folder.glob("runs/*")], "a finished run left its checkpoints or its lock"


def _last_words(folder: Path, *expected_words: str) -> None:
    """What a process that failed said last is one sentence, with these words in it."""
    said = (folder / "log").read_text().strip().splitlines()[-1]
    assert all(word in said for word in expected_words), said


# Kills


def killed_in_training(number: int, folder: Path, chance: random.Random) -> tuple[int, str]:
    """Stopped by a signal at any moment of a run, up to eight times."""
    kills, mark, (_, seconds) = 0, folder / "begun", expected(folder.parent / "undisturbed")
    while kills < 8:
        mark.unlink(missing_ok=True)
        process = start(folder, mark.touch, **RUN)
        _wait_for(mark, process)
        process.join(chance.uniform(0, seconds / 3))
        if process.exitcode is not None:
            break
        os.kill(process.pid, number)
        process.join()
        kills += 1
    _agrees(folder)
    return kills, UNDISTURBED


def killed_in_a_checkpoint(folder: Path, chance: random.Random) -> tuple[int, str]:
    death = [functools.partial(die_in_write, 1, chance.random()), functools.partial(die_beside_rename, 1, True)]
    process = start(folder, chance.choice(death), **RUN)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    _agrees(folder)
    return 1, UNDISTURBED


def die_at_record(suffix: str, after: bool, number: int = signal.SIGKILL) -> None:
    """From now on, be ended by this signal right before a file of this kind gets its name, or right after."""
    true_replace = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if not Path(target).name.endswith(suffix):
            return true_replace(path, target)
        if after:
            true_replace(path, target)
        return os.kill(os.getpid(), number)

    Path.replace = replace


def killed_in_writing_a_record(folder: Path, chance: random.Random) -> tuple[int, str]:
    suffix, after, number = chance.choice([".npz", ".json"]), chance.random() < 0.5, chance.choice(SIGNALS)
    process = start(folder, functools.partial(die_at_record, suffix, after, number), **RUN)
    process.join()
    assert process.exitcode == -number
    for path in (folder / "records").glob("*.json"):
        records.embeddings(path)
    _agrees(folder)
    return 1, UNDISTURBED


@functools.cache
def many_images(folder: Path) -> tuple[Path, str, str]:
    """A folder of images, its fingerprint and the digest of its pixels, once per process."""
    root = folder_of(folder / "many", per_class=16)
    images = cache.decode(scan(root), 24, folder / "whole")
    return root, images.fingerprint, hashlib.sha256(images.images.tobytes()).hexdigest()


def decode_slowly(root: Path, place: Path) -> None:
    load = cache._load_or_none

    def slow(path: Path, size: int) -> np.ndarray | None:
        time.sleep(0.002)
        return load(path, size)

    cache._load_or_none = slow
    images = cache.decode(scan(root), 24, place, workers=1)
    (place / f"{os.getpid()}.fingerprint").write_text(images.fingerprint)


def _decodes(root: Path, place: Path, fingerprint: str, pixels: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        images = cache.decode(scan(root), 24, place)
    assert images.fingerprint == fingerprint
    assert hashlib.sha256(images.images.tobytes()).hexdigest() == pixels, "other pixels under the true fingerprint"


def marked(mark: Path, work: Callable, *given: object) -> None:
    mark.touch()
    work(*given)


def _killed_at_work(folder: Path, chance: random.Random, seconds: float, work: Callable, *given: object) -> bool:
    """Whether a process was still at work when it was killed, at most so many seconds after it had begun."""
    mark = folder / "begun"
    mark.unlink(missing_ok=True)
    process = SERVER.Process(target=marked, args=(mark, work, *given))
    process.start()
    _wait_for(mark, process)
    process.join(chance.uniform(0, seconds))
    chance.choice([process.kill, process.terminate])()
    process.join()
    return process.exitcode in (-signal.SIGKILL, -signal.SIGTERM)


def _wait_for(mark: Path, process: BaseProcess) -> None:
    """Return when the process is at work: it takes longer to import than to do what is to be disturbed."""
    while process.is_alive() and not mark.exists():
        time.sleep(0.002)


def killed_in_caching(folder: Path, chance: random.Random) -> tuple[int, str]:
    root, *truth = many_images(folder.parent)
    work = (decode_slowly, root, folder / "cache")
    kills = sum(_killed_at_work(folder, chance, 0.3, *work) for _ in range(6))
    _decodes(root, folder / "cache", *truth)
    return kills, "the same pixels"


@contextlib.contextmanager
def served() -> Iterator[str]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), type("Logged", (Server,), {"log": []}))
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


def fetch(url: str, place: Path) -> None:
    download.BLOCK, download.PAUSE = 16_384, 0.01
    download.fetch(url, place, bytes=len(CONTENT), md5=MD5)


def killed_in_downloading(folder: Path, chance: random.Random) -> tuple[int, str]:
    kills = 0
    with served() as address:
        for _ in range(6):
            kills += _killed_at_work(folder, chance, 0.2, fetch, f"{address}/slow", folder / "file")
            assert not (folder / "file").exists() or (folder / "file").read_bytes() == CONTENT
        fetch(f"{address}/range", folder / "file")
    assert (folder / "file").read_bytes() == CONTENT
    return kills, "the whole file"


def killed_in_making_a_page(folder: Path, chance: random.Random) -> tuple[int, str]:
    """A small page, made by papermill."""
    (folder / "book").mkdir()
    (folder / "book" / "_toc.yml").touch()
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell("import time; time.sleep(0.3)"), nbformat.v4.new_code_cell("print(6 * 7)")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "book" / "page.ipynb")
    page = folder / "_runs" / "page.ipynb"

    def whole() -> bool:
        return nbformat.read(page, 4).cells[-1].outputs[0].text == "42\n"

    kills = 0
    for _ in range(2):
        kills += _killed(["papermill", "book/page.ipynb"], folder, chance)
        assert not page.exists() or whole()
    assert _command(["papermill", "book/page.ipynb"], folder).wait() == 0 and whole()
    return kills, "the whole page"


def killed_in_building_a_book(folder: Path, chance: random.Random) -> tuple[int, str]:
    """A book of two pages with the real book's configuration."""
    write_book(folder, first=["import time; time.sleep(1); print(6 * 7)"], second=["print(6 * 7)"])
    kills = sum(_killed(["jupyter-book", "build", "book/"], folder, chance) for _ in range(2))
    assert _command(["jupyter-book", "build", "book/"], folder).wait() == 0
    for page in ("first", "second"):
        assert "42" in (folder / "_build" / "html" / f"{page}.html").read_text()
    return kills, "the whole book"


def _command(words: list[str], folder: Path) -> subprocess.Popen:
    """A command of this environment, silent, in a folder."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([Path(sys.executable).with_name(words[0]), *words[1:]], cwd=folder, **quiet)


def _killed(words: list[str], folder: Path, chance: random.Random) -> bool:
    """Whether a command was still at work when it was killed, at a random moment of its first ten seconds."""
    process = _command(words, folder)
    try:
        process.wait(chance.uniform(0.3, 10))
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(chance.choice(SIGNALS))
        process.wait()
        return True


# Disks, memory, clocks


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A disk of this size at `place`; what is yielded mounts it anew with other options."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)
    finally:
        subprocess.run(["umount", place], check=True)


@functools.cache
def can_mount() -> bool:
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    return os.geteuid() == 0 and tried.returncode == 0


def full_disk(folder: Path, chance: random.Random) -> tuple[int, str]:
    """Records and checkpoints on a disk that is too small for them, and then is not."""
    if not can_mount():
        return 0, "not tried, since nothing may be mounted here"
    with small_disk(folder / "disk", f"{chance.randint(8, 800)}k") as remount:
        for name in ("records", "runs"):
            (folder / "disk" / name).mkdir()
            (folder / name).symlink_to(folder / "disk" / name)
        process = start(folder, **RUN)
        process.join()
        if process.exitcode:
            _last_words(folder, "No space left on device", "make room")
        for path in (folder / "records").glob("*.json"):
            records.read(path)
        remount("size=64m")
        _agrees(folder)
    return 1, SENTENCE if process.exitcode else UNDISTURBED


def read_only_records(folder: Path, _chance: random.Random) -> tuple[int, str]:
    if not can_mount():
        return 0, "not tried, since nothing may be mounted here"
    with small_disk(folder / "records", "1m") as remount:
        remount("ro")
        process = start(folder, **RUN)
        process.join()
        assert process.exitcode == 1
        _last_words(folder, "no record can be written to", "HYPO_RECORDS")
        assert "epoch" not in (folder / "log").read_text(), "trained before it refused"
        remount("rw,size=64m")
        _agrees(folder)
    return 1, "one sentence before the first step, and then the record of the undisturbed run"


def clock_back() -> None:
    """From now on, the clock is an hour earlier each time it is looked at."""
    looks, now = itertools.count(), time.time()
    time.time = lambda: now - 3600 * next(looks)


def clock_jumps_back(folder: Path, _chance: random.Random) -> tuple[int, str]:
    process = start(folder, functools.partial(die_beside_rename, 1, True), **RUN)
    process.join()
    process = start(folder, clock_back, **RUN)
    process.join()
    assert process.exitcode == 0
    _agrees(folder)
    return 1, UNDISTURBED


def little_memory(more: int) -> None:
    """From now on, this process gets so many MB more, and not one beyond."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def too_little_memory(folder: Path, chance: random.Random) -> tuple[int, str]:
    process = start(folder, functools.partial(little_memory, chance.randint(0, 60)), **RUN)
    process.join()
    # compiled code that does not look whether it got its memory, or Python with none left for the sentence
    mute = process.exitcode < 0 or "lost sys.stderr" in (folder / "log").read_text()
    if process.exitcode and not mute:
        _last_words(folder, "there is not enough memory")
    _agrees(folder)
    if mute:
        return 1, "ended by the system, and then the record of the undisturbed run"
    return 1, SENTENCE if process.exitcode else UNDISTURBED


# Several processes


def at_once(count: int, folder: Path, _chance: random.Random) -> tuple[int, str]:
    """Processes on the same run."""
    processes = [start(folder, **RUN) for _ in range(count)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * count
    assert len({path.read_text() for path in folder.glob("returned-*.json")}) == 1
    assert (folder / "log").read_text().count("epoch 2/2") == 1, "it was trained more than once"
    _agrees(folder)
    return 1, UNDISTURBED


def caching_at_once(count: int, folder: Path, _chance: random.Random) -> tuple[int, str]:
    root, fingerprint, pixels = many_images(folder.parent)
    processes = [SERVER.Process(target=decode_slowly, args=(root, folder / "cache")) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {path.read_text() for path in (folder / "cache").glob("*.fingerprint")} == {fingerprint}
    assert len([*(folder / "cache").glob("*.npy")]) == 1
    _decodes(root, folder / "cache", fingerprint, pixels)
    return 1, "the same pixels"


def write_record(folder: Path, seconds: float) -> None:
    record = a_record("digits", scale="demo")
    record["cost"]["seconds"] = seconds
    with contextlib.suppress(FileExistsError):
        records.write(record, {"z": np.ones((500, 20))}, folder)


def writing_at_once(count: int, folder: Path, _chance: random.Random) -> tuple[int, str]:
    processes = [SERVER.Process(target=write_record, args=(folder / "records", float(i))) for i in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    ((path, _),) = records.read_all(folder / "records")
    assert records.embeddings(path)["z"].shape == (500, 20)
    return 1, "one whole record"


# Damage


def damage(path: Path, chance: random.Random) -> None:
    """Flip a bit, or cut the file short."""
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    if chance.random() < 0.5:
        content[at] ^= 1 << chance.randrange(8)
    else:
        del content[at:]
    path.write_bytes(content)


def damaged_checkpoint(folder: Path, chance: random.Random) -> tuple[int, str]:
    process = start(folder, functools.partial(die_beside_rename, 2, True), **RUN)
    process.join()
    for path in chance.sample(sorted(folder.glob("runs/*/step-*.pt")), chance.randint(1, 2)):
        damage(path, chance)
    _agrees(folder)
    return 1, UNDISTURBED


def damaged_cache(folder: Path, chance: random.Random) -> tuple[int, str]:
    root, *truth = many_images(folder.parent)
    shutil.copytree(folder.parent / "whole", folder / "cache")
    damage(chance.choice([path for path in (folder / "cache").iterdir() if path.suffix in (".npy", ".json")]), chance)
    cache._checked.clear()  # as another process
    _decodes(root, folder / "cache", *truth)
    return 1, "the same pixels"


def _refused(read: Callable[[], object]) -> str:
    try:
        read()
    except (ValueError, OSError) as error:
        assert "\n" not in str(error)
        return "refused in one sentence"
    raise AssertionError("a damaged file was taken for a whole one")


def damaged_record(folder: Path, chance: random.Random) -> tuple[int, str]:
    path = records.write(a_record("digits", scale="demo", seed=chance.randrange(10**6)), {"z": np.ones((9, 3))}, folder)
    whole, kept = path.read_bytes(), path.with_suffix(".npz").read_bytes()
    while path.read_bytes().strip() == whole.strip():
        damage(path, chance)
    told = _refused(lambda: records.read(path))
    path.write_bytes(whole)
    while path.with_suffix(".npz").read_bytes() == kept:
        damage(path.with_suffix(".npz"), chance)
    assert _refused(lambda: records.embeddings(path)) == told
    return 2, told


def damaged_download(folder: Path, chance: random.Random) -> tuple[int, str]:
    (folder / "file").write_bytes(CONTENT)
    damage(folder / "file", chance)
    told = _refused(lambda: download.fetch("https://localhost/none", folder / "file", bytes=len(CONTENT), md5=MD5))
    return 1, told


FILES = {f"d/{i}": bytes([i]) * 99 for i in range(4)}


def damaged_archive(folder: Path, chance: random.Random) -> tuple[int, str]:
    """One with no published checksum; a bit that says nothing about the files, like one of a date, may be flipped."""
    archive = zip_of(folder / "a.zip", FILES) if chance.random() < 0.5 else tar_of(folder / "a.tar.gz", FILES)
    damage(archive, chance)
    try:
        download.unpack(archive, folder / "out")
    except download.DownloadError as error:
        assert "\n" not in str(error) and not (folder / "out").exists()
        return 1, "refused in one sentence"
    found = {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in folder.glob("out/*/*")}
    assert found == FILES, "a damaged archive was unpacked to other files"
    return 1, "the same files"


TRIALS: dict[str, Trial] = {
    "SIGKILL at any moment of a run": functools.partial(killed_in_training, signal.SIGKILL),
    "SIGTERM at any moment of a run": functools.partial(killed_in_training, signal.SIGTERM),
    "SIGKILL inside a checkpoint": killed_in_a_checkpoint,
    "SIGKILL or SIGTERM inside the writing of a record": killed_in_writing_a_record,
    "SIGKILL or SIGTERM while images are cached": killed_in_caching,
    "SIGKILL or SIGTERM while a file is downloaded": killed_in_downloading,
    "SIGKILL or SIGTERM while a page is made": killed_in_making_a_page,
    "SIGKILL or SIGTERM while a book is built": killed_in_building_a_book,
    "a full disk": full_disk,
    "a read-only folder of records": read_only_records,
    "a clock that jumps back": clock_jumps_back,
    "too little memory": too_little_memory,
    "2 processes on one run": functools.partial(at_once, 2),
    "8 processes on one run": functools.partial(at_once, 8),
    "2 processes on one cache": functools.partial(caching_at_once, 2),
    "8 processes on one cache": functools.partial(caching_at_once, 8),
    "2 processes on one record": functools.partial(writing_at_once, 2),
    "8 processes on one record": functools.partial(writing_at_once, 8),
    "a checkpoint with a flipped bit or cut short": damaged_checkpoint,
    "a cache with a flipped bit or cut short": damaged_cache,
    "a record or its embeddings with a flipped bit or cut short": damaged_record,
    "a download with a flipped bit or cut short": damaged_download,
    "an archive with a flipped bit or cut short": damaged_archive,
}
