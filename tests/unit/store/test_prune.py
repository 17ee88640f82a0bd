from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slipway.store import Store
from slipway.store.prune import Stored, choose, prune, stored
from tests.unit.store.conftest import artifact

NOW = 1_000_000.0


def put(store: Store, content: bytes, used: float) -> str:
    sha256 = store.add_bytes(content)
    os.utime(store.stamp(sha256), (used, used))
    return sha256


def test_keeps_what_is_named_and_removes_the_rest(store: Store) -> None:
    kept, gone = put(store, b"kept", NOW), put(store, b"gone", NOW)
    done = prune(store, [kept])
    assert [file.sha256 for file in done.removed] == [gone]
    assert [file.sha256 for file in stored(store)] == [kept]
    assert not store.stamp(gone).exists()
    assert store.has(artifact(b"kept"))


def test_dry_run_removes_nothing(store: Store) -> None:
    put(store, b"gone", NOW)
    assert prune(store, [], dry_run=True).freed == 4
    assert len(list(stored(store))) == 1


def test_removes_unfinished_and_damaged_files(store: Store) -> None:
    wanted = artifact(b"abcdef")
    with store.part(wanted.sha256, wanted.size) as part:
        assert part is not None
        part.write(b"abc")
    assert prune(store, []).leftovers == 3
    assert list((store.root / "part").iterdir()) == []


def test_a_store_that_is_not_there_is_clean(tmp_path: Path) -> None:
    assert prune(Store(tmp_path / "none"), []).freed == 0
    assert not (tmp_path / "none").exists()


def files(sizes: list[int]) -> list[Stored]:
    return [Stored(f"{n:064x}", Path(f"/{n}"), size, NOW - n * 100) for n, size in enumerate(sizes)]


def test_by_age() -> None:
    removed = choose(files([1, 1, 1]), set(), NOW, older_than=150, max_size=None)
    assert [file.path.name for file in removed] == ["2"]


@given(st.lists(st.integers(0, 100), max_size=8), st.integers(0, 400), st.sets(st.integers(0, 7)))
def test_by_size_removes_no_more_than_it_must(sizes: list[int], most: int, kept: set[int]) -> None:
    all_files = files(sizes)
    keep = {f"{n:064x}" for n in kept}
    removed = choose(all_files, keep, NOW, older_than=None, max_size=most)
    left = sum(sizes) - sum(file.size for file in removed)
    assert not keep & {file.sha256 for file in removed}
    assert [file.used for file in removed] == sorted(file.used for file in removed)
    if left > most:
        assert len(removed) == len([file for file in all_files if file.sha256 not in keep])
    if removed:
        assert left + removed[-1].size > most
