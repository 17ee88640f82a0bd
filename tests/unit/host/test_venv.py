"""The driver's environment: where it lies, when it is made again, and that a half-made one is never used."""

from __future__ import annotations

import ast
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from slipway.errors import MissingError, WrongArtifact
from slipway.host import process, venv, venv_make

ROOT = Path(__file__).resolve().parents[3]


class FakePrograms:
    """Stands for `python -m venv` and pip: makes what they would make, fails where told to."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.pip_says: list[process.Result | type[BaseException]] = []

    def __call__(self, argv: Sequence[str | os.PathLike[str]], **_options: object) -> process.Result:
        words = [os.fspath(word) for word in argv]
        self.calls.append(words)
        if "venv" in words:
            folder = Path(words[-1])
            (folder / "bin").mkdir(parents=True)
            (folder / "bin" / "python").symlink_to(sys.executable)
        elif self.pip_says:
            says = self.pip_says.pop(0)
            if isinstance(says, type):
                raise says
            return says
        return process.Result(0, "", "")

    def count(self, word: str) -> int:
        return sum(word in call for call in self.calls)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two requirement files, and a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checkout = tmp_path / "checkout"
    (checkout / "requirements").mkdir(parents=True)
    (checkout / "requirements" / "build.txt").write_text("# one\n")
    (checkout / "requirements" / "test.txt").write_text("# two\n")
    return checkout


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> FakePrograms:
    fake = FakePrograms()
    monkeypatch.setattr(process, "run", fake)
    return fake


def test_it_is_made_once(root: Path, programs: FakePrograms) -> None:
    assert venv.ensure(root, ["build"]) == root / ".venv"
    assert venv.ensure(root, ["build"]) == root / ".venv"
    assert (programs.count("venv"), programs.count("pip")) == (1, 1)


def test_the_test_requirements_are_added_only_when_wanted(root: Path, programs: FakePrograms) -> None:
    venv.ensure(root, ["build"])
    assert programs.count(str(root / "requirements" / "test.txt")) == 0
    venv.ensure(root, ["build", "test"])
    assert programs.count(str(root / "requirements" / "test.txt")) == 1
    assert programs.count("venv") == 1


def test_other_requirements_start_from_scratch(root: Path, programs: FakePrograms) -> None:
    venv.ensure(root, ["build", "test"])
    (root / ".venv" / "old-package").touch()
    (root / "requirements" / "build.txt").write_text("# other\n")
    venv.ensure(root, ["build"])
    assert programs.count("venv") == 2
    assert not (root / ".venv" / "old-package").exists()


@pytest.mark.parametrize("how", [KeyboardInterrupt, process.Result(-9, "", "")])
def test_an_interrupted_creation_is_done_again(
    root: Path, programs: FakePrograms, how: process.Result | type[BaseException]
) -> None:
    programs.pip_says = [how]
    with pytest.raises((KeyboardInterrupt, MissingError)):
        venv.ensure(root, ["build"])
    assert venv.lacking(root / ".venv", {"build": venv.stamp_of(root, "build")}) == ["build"]
    assert venv.ensure(root, ["build"]) == root / ".venv"
    assert programs.count("pip") == 2


def test_a_creation_killed_before_pip_is_done_again(root: Path, programs: FakePrograms) -> None:
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / venv.LOCK).touch()
    venv.ensure(root, ["build"])
    assert programs.count("venv") == 1


def test_an_environment_whose_python_has_gone_is_made_again(root: Path, programs: FakePrograms) -> None:
    venv.ensure(root, ["build"])
    python = root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    venv.ensure(root, ["build"])
    assert programs.count("venv") == 2


@pytest.mark.parametrize("owner", ["2.7", None])
def test_somebody_elses_venv_is_left_alone(root: Path, programs: FakePrograms, owner: str | None) -> None:
    """One of another Python (its lock file says so), or one that the user made."""
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    if owner:
        (root / ".venv" / venv.LOCK).write_text(owner)
    before = sorted(root.rglob("*"))
    assert venv.ensure(root, ["build"]) == venv.cache_place(root)
    assert sorted(root.rglob("*")) == before


def test_a_read_only_checkout_uses_the_cache_folder(
    root: Path, programs: FakePrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = venv_make.complete

    def refuse(checkout: Path, folder: Path, stamps: dict[str, str]) -> None:
        if folder.is_relative_to(root):
            raise OSError(30, "Read-only file system")
        complete(checkout, folder, stamps)

    monkeypatch.setattr(venv_make, "complete", refuse)
    assert venv.ensure(root, ["build"]) == venv.cache_place(root)


def test_no_place_at_all_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(venv_make, "complete", refuse)
    with pytest.raises(MissingError, match="no place"):
        venv.ensure(root, ["build"])


def test_other_bytes_than_the_locked_ones_are_exit_4(root: Path, programs: FakePrograms) -> None:
    programs.pip_says = [process.Result(1, "", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM …")]
    with pytest.raises(WrongArtifact):
        venv.ensure(root, ["build"])


def test_an_incomplete_checkout_is_told(root: Path) -> None:
    (root / "requirements" / "build.txt").unlink()
    with pytest.raises(MissingError, match=r"build\.txt"):
        venv.ensure(root, ["build"])


def _start(root: Path, log: Path) -> None:
    def slow(argv: Sequence[str], **_options: object) -> process.Result:
        with log.open("a") as out:
            out.write("pip\n" if "pip" in argv else "venv\n")
        if "venv" in argv:
            (Path(argv[-1]) / "bin").mkdir(parents=True)
            shutil.copy("/bin/true", Path(argv[-1]) / "bin" / "python")
        return process.Result(0, "", "")

    process.run = slow  # type: ignore[assignment]
    venv.ensure(root, ["build"])


def test_two_at_once_make_it_once(root: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_start, args=(root, tmp_path / "log")) for _ in range(4)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert [one.exitcode for one in both] == [0, 0, 0, 0]
    assert sorted((tmp_path / "log").read_text().split()) == ["pip", "venv"]


def test_a_real_environment_runs_isolated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real venv and pip modules: no package to install, so no network; PIP_* does no harm."""
    for name, value in {"PIP_USER": "1", "PIP_TARGET": "/nowhere", "PIP_REQUIRE_VIRTUALENV": "1"}.items():
        monkeypatch.setenv(name, value)
    shutil.copy(ROOT / "build.py", root)
    (root / "slipway" / "cli").mkdir(parents=True)
    (root / "slipway" / "__init__.py").touch()
    (root / "slipway" / "cli" / "main.py").write_text("def main(arguments): print(arguments); return 6\n")
    shutil.copy(ROOT / "slipway" / "errors.py", root / "slipway")
    shutil.copytree(ROOT / "slipway" / "host", root / "slipway" / "host")
    broken = {**os.environ, "PYTHONPATH": str(root / "poison"), "PYTHONWARNINGS": "error"}
    (root / "poison").mkdir()
    (root / "poison" / "argparse.py").write_text("raise SystemExit(99)\n")
    done = subprocess.run(
        [sys.executable, root / "build.py", "plan", "--json"], env=broken, cwd="/", capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (6, "['plan', '--json']\n"), done.stderr
    assert venv.ensure(root, ["build"]) == root / ".venv"


def test_sets_follow_the_verb() -> None:
    assert venv.sets_for(["plan"]) == ("build",)
    assert venv.sets_for([]) == ("build",)
    assert venv.sets_for(["test", "unit"]) == ("build", "test")


def test_build_py_can_be_read_by_old_pythons() -> None:
    ast.parse((ROOT / "build.py").read_text(), feature_version=(3, 6))


def test_an_old_python_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = runpy.run_path(str(ROOT / "build.py"))
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script["main"]() == 3
    said = capsys.readouterr().err
    assert "Python older than 3.11" in said
    assert "apt-get install python3.11" in said
    newer = tmp_path / "python3.12"
    newer.touch(0o755)
    assert script["main"]() == 3
    assert "run: python3.12" in capsys.readouterr().err
