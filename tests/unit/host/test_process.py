"""Subprocesses: what of the environment they see, and how their failures are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slipway.errors import BuildFailed, MissingError, WrongArtifact
from slipway.host import process

ROOT = Path(__file__).resolve().parents[3]


def test_only_allowed_variables_reach_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_LIKE", "x")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PIP_CERT", "/cert")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:1")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    seen = process.run(["env"], env={"EXTRA": "1"}).out.splitlines()
    names = {line.partition("=")[0] for line in seen}
    assert "HTTPS_PROXY=http://proxy.example:1" in seen
    assert "EXTRA=1" in seen
    assert "LC_ALL=C.UTF-8" in seen
    assert not names & {"LD_PRELOAD_LIKE", "PYTHONPATH", "PIP_CERT"}
    assert "PIP_CERT=/cert" in process.run(["env"], pass_names=["PIP_*"]).out.splitlines()


def test_system_folders_are_searched_even_if_path_lacks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert process.which("ldconfig") is not None


def test_a_failure_shows_the_end_of_what_the_program_said() -> None:
    with pytest.raises(WrongArtifact) as caught:
        process.run(["sh", "-c", "echo reason >&2; exit 7"], error=WrongArtifact, remedy="do that")
    assert "exit code 7" in str(caught.value)
    assert "reason" in str(caught.value)
    assert "do that" in str(caught.value)


def test_a_program_that_is_not_there_names_its_package() -> None:
    error = process.missing("dockerd")
    assert error.exit_code == 3
    assert "apt-get install docker.io" in str(error)
    with pytest.raises(MissingError):
        process.run(["slipway-no-such-program"])


def test_a_slow_program_is_ended() -> None:
    with pytest.raises(BuildFailed, match="did not end within"):
        process.run(["sleep", "30"], timeout=0.2)


def test_the_host_package_needs_the_standard_library_alone() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import slipway.host.venv_make"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
