"""The layer cache: a hit reads no bytes, damage is noticed, processes share it, a kill leaves nothing broken."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipway.errors import BuildFailed, MissingError
from slipway.layers.blob import BlobWriter
from slipway.layers.cache import LayerCache

KEY = "ab" * 32
OTHER = "cd" * 32
ROOT = Path(__file__).resolve().parents[3]


def make(writer: BlobWriter) -> None:
    writer.write(b"content " * 1000)
    writer.notes["files"] = 1


def must_not_run(writer: BlobWriter) -> None:
    raise AssertionError("made although it is cached")


def test_made_once(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    assert cache.get(KEY) is None
    made = cache.build(KEY, make)
    assert cache.build(KEY, must_not_run) == made == cache.get(KEY) == LayerCache(tmp_path).get(KEY)
    assert made.notes == {"files": 1}
    assert made.path == cache.path(KEY) and made.path.stat().st_size == made.blob.size
    assert made.checked() == made.path


def test_get_touches_nothing(tmp_path: Path) -> None:
    LayerCache(tmp_path / "none").get(KEY)
    assert not (tmp_path / "none").exists()


def test_failing_builder_leaves_nothing(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    with pytest.raises(RuntimeError):
        cache.build(KEY, lambda writer: (_ for _ in ()).throw(RuntimeError()))
    assert cache.get(KEY) is None
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".lock"]
    assert cache.build(KEY, make)


def test_full_disk(tmp_path: Path) -> None:
    def full(writer: BlobWriter) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(MissingError, match="disk is full") as caught:
        LayerCache(tmp_path).build(KEY, full)
    assert caught.value.exit_code == 3
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("damage", ["truncated", "grown", "flipped", "gone"])
def test_damage_is_seen_and_mended(tmp_path: Path, damage: str) -> None:
    notices: list[str] = []
    cache = LayerCache(tmp_path, notices.append)
    made = cache.build(KEY, make)
    raw = made.path.read_bytes()
    made.path.unlink()
    if damage != "gone":
        made.path.write_bytes({"truncated": raw[:-1], "grown": raw + b"x", "flipped": raw[:-1] + b"x"}[damage])
    assert cache.get(KEY) is None
    assert len(notices) == (damage != "gone")
    assert cache.build(KEY, make).blob == made.blob
    assert made.path.read_bytes() == raw


def test_damage_with_size_and_mtime_kept_is_seen_when_bytes_are_read(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    made = cache.build(KEY, make)
    before = made.path.stat()
    with made.path.open("r+b") as file:
        file.seek(made.blob.size // 2)
        file.write(b"\xff\xfe")
    os.utime(made.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.get(KEY) is not None
    assert cache.get(KEY, verify=True) is None
    with pytest.raises(BuildFailed, match="damaged"):
        made.checked()
    assert cache.get(KEY) is None
    assert cache.build(KEY, make).checked()


def test_copied_cache_is_hashed_once_and_then_trusted(tmp_path: Path) -> None:
    made = LayerCache(tmp_path / "old").build(KEY, make)
    (tmp_path / "old").rename(tmp_path / "new")
    path = LayerCache(tmp_path / "new").path(KEY)
    raw = path.read_bytes()
    path.unlink()
    path.write_bytes(raw)
    os.utime(path, ns=(1, 1))
    cache = LayerCache(tmp_path / "new")
    found = cache.get(KEY)
    assert found is not None and found.blob == made.blob
    assert json.loads(path.with_name(f"{KEY}.json").read_text())["seen"] == [made.blob.size, 1, path.stat().st_ino]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"blob": 1}', '{"blob": {}, "notes": {}, "seen": []}', "\0"])
def test_damaged_record(tmp_path: Path, text: str) -> None:
    cache = LayerCache(tmp_path)
    made = cache.build(KEY, make)
    made.path.with_name(f"{KEY}.json").write_text(text)
    assert cache.get(KEY) is None
    assert cache.build(KEY, make).blob == made.blob


def test_hard_links_stay_hits(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    made = cache.build(KEY, make)
    os.link(made.path, tmp_path / "out")
    assert cache.build(KEY, must_not_run) == made


def test_prune(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    kept, dropped = cache.build(KEY, make), cache.build(OTHER, make)
    for key in (KEY, OTHER):
        cache.path(key).with_name(f"{key}.tar.zst.999.part").write_bytes(b"123")
    assert cache.prune({KEY}) == dropped.blob.size + 6 + _meta_size(tmp_path, dropped.blob.size)
    assert cache.get(KEY) == kept and cache.get(OTHER) is None
    assert not list(tmp_path.rglob("*.part"))
    assert not list(tmp_path.rglob(f"{OTHER}*"))


def _meta_size(root: Path, size: int) -> int:
    """The two records are equally long but for their keys, which stand in file names only."""
    return next(root.rglob("*.json")).stat().st_size


def test_prune_leaves_what_is_being_made(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)

    def prune_meanwhile(writer: BlobWriter) -> None:
        make(writer)
        assert LayerCache(tmp_path).prune(()) == 0

    assert cache.build(KEY, prune_meanwhile).checked()


def test_adopt(tmp_path: Path) -> None:
    made = LayerCache(tmp_path / "one").build(KEY, make)
    cache = LayerCache(tmp_path / "two")
    (tmp_path / "file").write_bytes(made.path.read_bytes())
    adopted = cache.adopt(KEY, tmp_path / "file", made.blob, {"from": "registry"})
    assert cache.get(KEY) == adopted and adopted.notes == {"from": "registry"}
    (tmp_path / "file").write_bytes(b"other")
    with pytest.raises(BuildFailed, match="not what it should be"):
        cache.adopt(OTHER, tmp_path / "file", made.blob)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(MissingError, match="can't be written"):
        LayerCache(tmp_path / "file").build(KEY, make)


def test_travels_to_other_processes(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path, print)
    assert pickle.loads(pickle.dumps(cache)).root == cache.root  # noqa: S301


PROGRAM = """
import sys, time
from pathlib import Path
from slipway.layers.cache import LayerCache
def make(writer):
    Path(sys.argv[2]).open("a").write("made\\n")
    writer.write(b"x" * 1000000)
    time.sleep(float(sys.argv[3]))
print(LayerCache(Path(sys.argv[1])).build("ab" * 32, make).blob.digest, flush=True)
"""


def start(cache: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(cache), str(log), str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    processes = [start(tmp_path / "cache", tmp_path / "log", 0.3) for _ in range(3)]
    digests = {process.communicate(timeout=30)[0] for process in processes}
    assert len(digests) == 1 and all(process.returncode == 0 for process in processes)
    assert (tmp_path / "log").read_text() == "made\n"


def test_killed_while_making(tmp_path: Path) -> None:
    process = start(tmp_path / "cache", tmp_path / "log", 60)
    deadline = time.monotonic() + 30
    while not (tmp_path / "log").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    cache = LayerCache(tmp_path / "cache")
    assert cache.get(KEY) is None
    assert cache.build(KEY, make).checked()
    cache.prune({KEY})
    assert not list(tmp_path.rglob("*.part"))
