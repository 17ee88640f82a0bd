"""What is taken out of a cache, and what stays."""

from __future__ import annotations

import os
from pathlib import Path

from slipway.layers.cache import LayerCache
from slipway.layers.sweep import AGE, Keep, sweep

NOW = 2_000_000_000.0


def put(path: Path, age: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    os.utime(path, (NOW - age, NOW - age))
    return path


def filled(folder: Path) -> LayerCache:
    cache = LayerCache(folder)
    for key in ("a" * 64, "b" * 64):
        cache.build(key, lambda out: out.write(b"tar"))
        put(folder / "wheels" / key[:2] / f"{key}.12345678.json")
        put(folder / "python" / key[:16] / "usr/bin/python3.11")
    put(folder / "bytecode/aa/old.zst", AGE + 1)
    put(folder / "bytecode/aa/new.zst", AGE - 1)
    put(folder / "inspect/layers/old.json", AGE + 1)
    return cache


KEEP = Keep({"a" * 64}, {"a" * 64}, {"a" * 16})


def test_what_a_lock_needs_and_what_is_used_stays(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    freed = sweep(cache, KEEP, now=NOW)
    assert freed["wheels"] == freed["bytecode"] == freed["inspect"] == 5
    assert freed["layers"] > 0
    assert freed["python"] >= 5
    assert cache.get("a" * 64) is not None
    assert cache.get("b" * 64) is None
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"new.zst", f"{'a' * 64}.12345678.json", "python3.11"} <= left
    assert not {"old.zst", "old.json", f"{'b' * 64}.12345678.json"} & left
    assert [path.name for path in (tmp_path / "python").iterdir()] == ["a" * 16]


def test_a_dry_run_removes_nothing(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    freed = sweep(cache, KEEP, dry_run=True, now=NOW)
    assert sorted(tmp_path.rglob("*")) == before
    assert all(freed[name] > 0 for name in ("layers", "wheels", "python", "bytecode", "inspect"))


def test_an_empty_cache_is_fine(tmp_path: Path) -> None:
    assert set(sweep(LayerCache(tmp_path / "none"), KEEP).values()) == {0}
