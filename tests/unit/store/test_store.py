from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.errors import MissingError, WrongArtifact
from slipway.sources.outcome import Cancelled
from slipway.store import Store
from slipway.store import part as part_module
from tests.unit.store.conftest import artifact

CONTENT = b"some bytes" * 1000
WANTED = artifact(CONTENT)


def damage(path: Path, *, keep_times: bool) -> None:
    """Change one byte in place; with keep_times size and mtime are as before."""
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"X")
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_added_bytes_are_found_by_their_hash(store: Store) -> None:
    assert not store.has(WANTED)
    assert store.add_bytes(CONTENT) == WANTED.sha256
    assert store.has(WANTED)
    assert store.path(WANTED.sha256) == store.root / "sha256" / WANTED.sha256[:2] / WANTED.sha256
    assert store.checked(WANTED).read_bytes() == CONTENT


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(store: Store, umask: int) -> None:
    old = os.umask(umask)
    try:
        store.add_bytes(CONTENT)
    finally:
        os.umask(old)
    assert stat.S_IMODE(store.path(WANTED.sha256).stat().st_mode) == 0o444
    for folder in ("", "sha256", "stamps", "part", f"sha256/{WANTED.sha256[:2]}"):
        assert stat.S_IMODE((store.root / folder).stat().st_mode) == 0o755


def test_a_file_is_added_only_when_it_is_the_one(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with pytest.raises(WrongArtifact, match="not the file it should be"):
        store.add_file(path, "0" * 64)
    assert store.add_file(path, WANTED.sha256) == WANTED.sha256
    assert store.checked(WANTED).read_bytes() == CONTENT


def test_what_is_not_there_says_what_to_do(store: Store) -> None:
    with pytest.raises(MissingError, match="build.py fetch"):
        store.checked(WANTED)


@pytest.mark.parametrize("keep_times", [True, False])
def test_damage_is_noticed_told_with_both_hashes_and_set_aside(store: Store, keep_times: bool) -> None:
    store.add_bytes(CONTENT)
    path = store.path(WANTED.sha256)
    damage(path, keep_times=keep_times)
    actual = hashlib.sha256(path.read_bytes()).hexdigest()
    assert not store.has(WANTED)  # without reading it: ctime can't be set back
    with pytest.raises(WrongArtifact) as caught:
        store.checked(WANTED)
    assert WANTED.sha256 in str(caught.value) and actual in str(caught.value)
    assert not path.exists()
    assert (store.root / "damaged" / WANTED.sha256).exists()
    store.add_bytes(CONTENT)
    assert store.checked(WANTED).read_bytes() == CONTENT


def test_a_truncated_file_is_damaged(store: Store) -> None:
    store.add_bytes(CONTENT)
    path = store.path(WANTED.sha256)
    path.chmod(0o644)
    os.truncate(path, 10)
    with pytest.raises(WrongArtifact):
        store.checked(WANTED)


def test_a_file_without_stamp_is_hashed_before_it_is_trusted(store: Store) -> None:
    store.add_bytes(CONTENT)
    store.stamp(WANTED.sha256).unlink()
    assert not store.has(WANTED)
    assert store.verify(WANTED.sha256) is None
    assert store.has(WANTED)


def test_a_stamp_that_is_rubbish_vouches_for_nothing(store: Store) -> None:
    store.add_bytes(CONTENT)
    store.stamp(WANTED.sha256).write_bytes(b"\xff\x00")
    assert not store.has(WANTED)


def test_unverified_bytes_get_no_name(store: Store) -> None:
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        part.write(CONTENT[:-1])
        with pytest.raises(ValueError, match="not what it should be"):
            store.publish(part)
        part.write(b"?")
        with pytest.raises(ValueError, match="not what it should be"):
            store.publish(part)
        with pytest.raises(ValueError, match="more than"):
            part.write(b"?")
    assert not store.path(WANTED.sha256).exists()


def test_what_was_begun_is_taken_over(store: Store) -> None:
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        part.write(CONTENT[:500])
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        assert part.position == 500
        part.write(CONTENT[500:])
        store.publish(part)
    assert store.checked(WANTED).read_bytes() == CONTENT


def test_a_second_one_waits_and_finds_it_brought(store: Store) -> None:
    found: list[object] = []

    def second() -> None:
        with store.part(WANTED.sha256, WANTED.size) as part:
            found.append(part)

    thread = threading.Thread(target=second)
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        part.write(CONTENT)
        store.publish(part)
    thread.join(5)
    assert found == [None]


def test_a_second_one_takes_over_when_the_first_gives_up(store: Store) -> None:
    found: list[int] = []

    def second() -> None:
        with store.part(WANTED.sha256, WANTED.size) as part:
            assert part is not None
            found.append(part.position)

    thread = threading.Thread(target=second)
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        thread.start()
        part.write(CONTENT[:7])
    thread.join(5)
    assert found == [7]


def test_waiting_can_be_cancelled(store: Store) -> None:
    cancel = threading.Event()
    with store.part(WANTED.sha256, WANTED.size):
        threading.Timer(0.2, cancel.set).start()
        with pytest.raises(Cancelled), store.part(WANTED.sha256, WANTED.size, cancel):
            pass


def test_nothing_is_left_of_a_download_that_did_not_begin(store: Store) -> None:
    with store.part(WANTED.sha256, WANTED.size):
        pass
    assert list((store.root / "part").iterdir()) == []


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> Iterator[None]:
    def fail(*_arguments: object, **_named: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(part_module.os, name, fail)
        yield


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_and_leaves_the_store_usable(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with failing(monkeypatch, "write", number), pytest.raises(MissingError, match="no space") as caught:
        store.add_bytes(CONTENT)
    assert "store prune" in str(caught.value)
    store.add_bytes(CONTENT)
    assert store.checked(WANTED).read_bytes() == CONTENT


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_store_that_can_not_be_written(store: Store, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    with failing(monkeypatch, "open", number), pytest.raises(MissingError, match="can't write") as caught:
        store.add_bytes(CONTENT)
    assert "--store" in str(caught.value)


def test_a_file_where_the_store_should_be(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(MissingError):
        Store(tmp_path / "store").add_bytes(CONTENT)


def test_prune_waits_for_builds(store: Store) -> None:
    order: list[str] = []
    inside = threading.Event()
    release = threading.Event()

    def build() -> None:
        with store.in_use():
            inside.set()
            release.wait(5)
            order.append("build")

    thread = threading.Thread(target=build)
    thread.start()
    inside.wait(5)
    threading.Timer(0.2, release.set).start()
    with store.alone():
        order.append("prune")
    thread.join(5)
    assert order == ["build", "prune"]


def test_two_builds_do_not_wait_for_each_other(store: Store) -> None:
    with store.in_use(), store.in_use():
        pass
