"""`build.py test`: what it runs, which exit code comes of it, and when a lost .deb is no failure."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from slipway.cli import common
from slipway.cli import test as verb
from slipway.engine import session
from slipway.engine.model import Engine
from slipway.errors import MissingError, UsageError
from slipway.lock.model import Artifact, Deb, Source, Wheel
from slipway.progress import Progress, open_progress
from slipway.sources.origin import Offer
from slipway.sources.outcome import Absent, Unreachable, WrongBytes
from slipway.store.report import ArtifactsWrong, Finding
from slipway.testing import image

ENGINE = Engine("28.5.2", "containerd", "unix:///run/x.sock")


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    for name in ("unit", "deploy", "container"):
        (tmp_path / "tests" / name).mkdir(parents=True)
    return tmp_path / "tests"


def test_by_default_all_that_run_anywhere_run_together(tests: Path) -> None:
    choice = verb.choose([], tests=tests)
    assert choice.paths == (str(tests / "unit"), str(tests / "deploy"), str(tests / "container"))
    assert choice.needs_image


def test_unit_tests_need_no_image(tests: Path) -> None:
    assert verb.choose(["unit"], tests=tests) == verb.Choice((str(tests / "unit"),), False, ())


def test_all_means_what_is_there(tests: Path) -> None:
    assert verb.choose(["all"], tests=tests).paths == tuple(str(tests / n) for n in ("unit", "deploy", "container"))
    for name in ("fabric", "nixl", "kv"):
        (tests / "gpu" / name).mkdir(parents=True)
    assert verb.choose(["all"], tests=tests).paths[-1] == str(tests / "gpu/kv")
    gpu = verb.choose(["gpu"], tests=tests)
    assert gpu.paths == tuple(str(tests / "gpu" / name) for name in ("fabric", "nixl", "kv"))
    assert gpu.needs_image


def test_a_suite_that_is_not_there_is_wrong_usage(tests: Path) -> None:
    with pytest.raises(UsageError, match="no gpu/fabric tests"):
        verb.choose(["gpu"], tests=tests)


@pytest.mark.parametrize(
    "words",
    [
        ["unit", "--junit", "x.xml", "--", "-k", "load", "--", "container"],
        ["--junit", "x.xml", "unit", "--", "-k", "load", "--", "container"],
    ],
)
def test_pytest_gets_its_options(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    args = parser.parse_args(words)
    assert (args.words, args.junit) == (["unit"], Path("x.xml"))
    assert args.options == ["-k", "load", "--", "container"]
    assert verb.choose(args.words, args.options).options == ("-k", "load", "--", "container")


def test_there_need_not_be_any(tests: Path) -> None:
    assert arguments("unit").options == []
    assert arguments().words == []


def test_a_path_can_be_named(tests: Path) -> None:
    (tests / "container" / "test_a.py").touch()
    choice = verb.choose([f"{tests}/container/test_a.py::test_x"], tests=tests)
    assert choice.paths == (f"{tests}/container/test_a.py::test_x",)
    assert choice.needs_image
    assert verb.choose([str(tests)], tests=tests).needs_image
    with pytest.raises(UsageError, match="neither a suite nor a path"):
        verb.choose(["contianer"], tests=tests)


@pytest.mark.parametrize(("theirs", "ours"), [(0, 0), (1, 1), (2, 130), (3, 1), (4, 2), (5, 2), (-9, 1)])
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, theirs: int, ours: int) -> None:
    code = f"import os; os._exit({theirs})" if theirs >= 0 else "import os; os.kill(os.getpid(), 9)"
    assert verb._pytest([sys.executable, "-c", code], {}) == ours


def test_no_tests_found_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").touch()
    choice = verb.Choice((str(tmp_path),), False, ())
    assert verb._pytest(verb.pytest_command(choice, None), {}) == 2


def test_a_junit_report_is_written(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    choice = verb.Choice((str(tmp_path),), False, ("-q",))
    assert verb._pytest(verb.pytest_command(choice, tmp_path / "report.xml"), {}) == 0
    assert 'tests="1"' in (tmp_path / "report.xml").read_text()


def test_an_interrupt_lets_pytest_clean_up(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        try:
            open(sys.argv[1], "w").close()
            time.sleep(60)
        except KeyboardInterrupt:
            open(sys.argv[2], "w").close()
    """)
    up, cleaned = tmp_path / "up", tmp_path / "cleaned"
    driver = (
        f"import sys; sys.path.insert(0, {str(common.ROOT)!r})\nfrom slipway.cli.test import _pytest\n"
        f"_pytest([sys.executable, '-c', {script!r}, {str(up)!r}, {str(cleaned)!r}], {{}})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", driver],
        stderr=subprocess.DEVNULL,
        # A shell's background ignores SIGINT, and so would the driver.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as process:
        deadline = time.monotonic() + 120
        while not up.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.wait(120)
    assert process.returncode != 0
    assert cleaned.exists()


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return parser.parse_args(list(words))


def test_an_engine_that_cant_be_had_is_exit_3_before_any_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_data: Path) -> contextlib.AbstractContextManager[Engine]:
        raise MissingError("no engine")

    monkeypatch.setattr(session, "available", none)
    monkeypatch.setattr(verb, "_pytest", lambda *_: pytest.fail("tests ran"))
    with pytest.raises(MissingError):
        verb.run(arguments("container"))


def test_a_named_image_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def available(_data: Path) -> Iterator[Engine]:
        yield ENGINE

    seen: list[dict[str, str]] = []
    monkeypatch.setattr(session, "available", available)
    monkeypatch.setattr(verb, "build_and_load", lambda *_: pytest.fail("an image was built"))
    monkeypatch.setattr(verb, "_pytest", lambda _command, more: seen.append(dict(more)) or 0)
    monkeypatch.setattr(verb, "_remove_containers", lambda *_: None)
    monkeypatch.setattr(Engine, "image", lambda _self, name: {"Id": "x"} if name == "slipway:x" else None)
    with pytest.raises(UsageError, match="no image 'slipway:y'"):
        verb.run(arguments("container", "--image", "slipway:y"))
    assert verb.run(arguments("container", "--image", "slipway:x")) == 0
    [given] = seen
    assert given["DOCKER_HOST"] == ENGINE.address
    assert (given[verb.IMAGE], given[verb.RUN]) == ("slipway:x", str(os.getpid()))
    assert "rules" in given[verb.FIREWALL]


DEB = Deb("libc6", "2.36-9", "libc6_2.36-9_amd64.deb", 1, "0" * 64, "bookworm", "main", "pool/main/g/x.deb")
WHEEL = Wheel("torch", "2", "torch-2-py3-none-any.whl", 1, "1" * 64)


def gone(artifact: Artifact) -> Finding:
    return Finding(artifact, (Absent("http://mirror.example/x", "404"),), (Offer("2.36-10", "http://mirror.example"),))


@pytest.mark.parametrize(
    ("findings", "moved"),
    [
        ([gone(DEB)], True),
        ([gone(Source("libfabric", "2.1.0", "x.tar.xz", 1, "2" * 64))], True),
        ([gone(DEB), gone(WHEEL)], False),
        ([Finding(DEB, (WrongBytes("http://mirror.example/x", "other bytes", "3" * 64),))], False),
        ([gone(DEB), Finding(DEB, (Unreachable("http://mirror.example/x", "down"),))], False),
    ],
)
def test_a_mirror_that_moved_on_is_told_from_breakage(findings: list[Finding], moved: bool) -> None:
    assert image.mirror_moved_on(ArtifactsWrong(findings)) is moved


class FakeBuild:
    """Stands for assembling: fails with the given findings the first time, notes what it was asked for."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        self.asked: list[SimpleNamespace] = []

    def request(self, args: argparse.Namespace, _progress: Progress) -> SimpleNamespace:
        return SimpleNamespace(locks=args.locks, output=args.output or Path("/checkout/out/2.60-cpu-amd64"))

    def assemble(self, asked: SimpleNamespace, _progress: Progress) -> SimpleNamespace:
        self.asked.append(asked)
        if len(self.asked) == 1:
            raise ArtifactsWrong(self.findings)
        return SimpleNamespace(folder=asked.output, reference="slipway:x")


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """Calls of the verb lock."""
    calls: list[argparse.Namespace] = []
    monkeypatch.setattr(image.lock_verb, "run", lambda args: calls.append(args) or 0)
    return calls


def test_a_moved_mirror_is_tested_with_a_fresh_lock_and_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locked: list[argparse.Namespace]
) -> None:
    fake, said = FakeBuild([gone(DEB)]), StringIO()
    monkeypatch.setattr(image, "assemble", fake.assemble)
    monkeypatch.setattr(image.build_verb, "request", fake.request)
    args = arguments("--variant=cpu", "--mirror=debian=http://mirror.example/d", "--mirror=efa=http://e.example")
    built = image.build(args, tmp_path, open_progress("plain", said))
    assert built.folder.name == "2.60-cpu-amd64-relocked", "out/ must not hold an image of another lock"
    assert [asked.locks for asked in fake.asked] == [args.locks, tmp_path]
    [lock] = locked
    assert (lock.variant, lock.upgrade, lock.output) == ("cpu", ["debian"], tmp_path)
    assert lock.mirrors == args.mirrors
    assert "mirror moved on" in said.getvalue()


def test_breakage_stays_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, locked: list[argparse.Namespace]
) -> None:
    fake = FakeBuild([gone(WHEEL)])
    monkeypatch.setattr(image, "assemble", fake.assemble)
    monkeypatch.setattr(image.build_verb, "request", fake.request)
    with pytest.raises(ArtifactsWrong):
        image.build(arguments(), tmp_path, Progress())
    assert locked == []
