from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slipway.host.replace import write_whole


def test_many_writers_of_one_path_all_succeed_and_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    contents = [bytes([number]) * 100_000 for number in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda content: [write_whole(path, content) for _ in range(20)], contents))
    assert path.read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kept").touch()
    with pytest.raises(OSError):
        write_whole(tmp_path / "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
