"""Trees of plain files: same entries whatever the checkout's umask."""

import os
import socket
from pathlib import Path

import pytest

from slipway.errors import BuildFailed
from slipway.layers.files import fingerprint, tree


def make(folder: Path, umask: int) -> Path:
    before = os.umask(umask)
    try:
        (folder / "opt/x").mkdir(parents=True)
        (folder / "opt/x/run").write_text("#!/bin/sh\n")
        (folder / "opt/x/run").chmod(0o777 & ~umask)
        (folder / "opt/x/data").write_text("data")
        (folder / "opt/link").symlink_to("x/run")
    finally:
        os.umask(before)
    return folder


def test_umask_does_not_matter(tmp_path: Path) -> None:
    loose, tight = tree(make(tmp_path / "a", 0o000)), tree(make(tmp_path / "b", 0o077))
    assert fingerprint(loose) == fingerprint(tight)
    assert {entry.path: entry.mode for entry in loose} == {"opt/link": 0o777, "opt/x/data": 0o644, "opt/x/run": 0o755}


def test_fingerprint_sees_content_mode_and_target(tmp_path: Path) -> None:
    first = make(tmp_path / "a", 0o022)
    before = fingerprint(tree(first))
    (first / "opt/x/data").write_text("other")
    after = fingerprint(tree(first))
    assert [path for path in before if before[path] != after[path]] == ["opt/x/data"]


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    listener.bind("s")
    with pytest.raises(BuildFailed, match="only files and symlinks"):
        tree(tmp_path)
    listener.close()
