"""The image's entrypoint, run by this machine's sh."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parents[3] / "docker" / "rootfs" / "opt" / "slipway"


def entrypoint(tmp_path: Path) -> Path:
    """The entrypoint, reading its environment file from the checkout instead of from /opt/slipway."""
    copy = tmp_path / "entrypoint"
    copy.write_text((FILES / "entrypoint").read_text().replace(". /opt/slipway/", f". {FILES}/"))
    return copy


def run(tmp_path: Path, *command: str, user: int | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "serve_app").write_text('#!/bin/sh\necho serve_app "$@"\n')
    (tools / "serve_app").chmod(0o755)
    return subprocess.run(
        ["sh", str(entrypoint(tmp_path)), *command],
        env={"PATH": f"{tools}:/usr/bin:/bin:/opt/venv/bin", "TMPDIR": str(tmp_path), **environment},
        user=user, group=0 if user else None, extra_groups=[] if user else None,
        capture_output=True, text=True, timeout=20,
    )  # fmt: skip


def test_no_arguments_show_the_usage(tmp_path: Path) -> None:
    done = run(tmp_path, HOME=str(tmp_path))
    assert done.returncode == 0
    assert done.stdout == "serve_app --help\n"
    assert "Nothing to run" in done.stderr


@pytest.mark.parametrize(("command", "code"), [(["sh", "-c", "exit 7"], 7), (["true"], 0), (["no-such-thing"], 127)])
def test_any_command_runs_as_given(tmp_path: Path, command: list[str], code: int) -> None:
    assert run(tmp_path, *command, HOME=str(tmp_path)).returncode == code


def test_arguments_with_blanks_and_quotes_arrive_whole(tmp_path: Path) -> None:
    done = run(tmp_path, "printf", "%s|", "a b", "", "'\"$x", HOME=str(tmp_path))
    assert done.stdout == "a b||'\"$x|"


def test_a_home_that_is_set_and_writable_is_kept(tmp_path: Path) -> None:
    done = run(tmp_path, "env", HOME=str(tmp_path), HF_HOME="/mine", USER="me")
    lines = done.stdout.splitlines()
    assert f"HOME={tmp_path}" in lines
    assert "HF_HOME=/mine" in lines
    assert "LOGNAME=me" in lines


@pytest.mark.skipif(os.getuid() != 0, reason="taking on another user id needs root")
@pytest.mark.parametrize("home", ["/", "/root", ""])
def test_an_arbitrary_user_gets_a_name_and_a_home(tmp_path: Path, home: str) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o777)
    done = run(tmp_path, "sh", "-c", "env; touch $HOME/x", user=12345, HOME=home)
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert found["USER"] == found["LOGNAME"] == "uid12345"
    for name in ("HOME", "HF_HOME", "VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
        assert found[name].startswith(str(tmp_path)), name


def test_the_command_takes_the_shells_place_and_gets_the_signals(tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["sh", str(entrypoint(tmp_path)), "sh", "-c", "trap 'exit 9' TERM; echo $$; while :; do sleep 0.05; done"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 9
    process.stdout.close()
