"""Run the tests: `test [unit|deploy|container|gpu|all] [PATH …] [-- PYTEST OPTIONS]`.

Without a suite: unit, deploy and container tests, in one pytest run. Container tests need an image and an engine: the
image is built if need be, and loaded; an engine that runs already is used, otherwise Docker is installed from Debian's
packages (as root), started for the tests and stopped after them. Nothing keeps running; the firewall stays as it is.

An engine that can't be had is exit 3, a failed test exit 1; tests that could not run count as skipped, with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.cli import build, common
from slipway.engine import firewall, session
from slipway.engine.model import Engine
from slipway.errors import UsageError
from slipway.host import process
from slipway.testing import two_nodes
from slipway.testing.image import build_and_load

HELP = "run unit, deploy and container tests; brings its own engine where it has to"

SUITES: dict[str, tuple[str, ...]] = {name: (name,) for name in ("unit", "deploy", "container")}
SUITES["gpu"] = ("gpu/fabric", "gpu/nixl", "gpu/kv")
"""Without gpu/serve_app, which runs with the image's own Python."""

SUITES["all"] = tuple(folder for folders in list(SUITES.values()) for folder in folders)
DEFAULT = ("unit", "deploy", "container")
NEEDS_IMAGE = ("container", "gpu")
TESTS = common.ROOT / "tests"

IMAGE = "SLIPWAY_TEST_IMAGE"
"""Names the image for the tests; without it they are skipped."""

LABEL = "io.slipway.test-run"
RUN = "SLIPWAY_TEST_RUN"
"""Every container that a test starts carries the label with this value, so that none outlives the run."""

FIREWALL = "SLIPWAY_TEST_FIREWALL"
"""slipway.engine.firewall's snapshot from before the engine started."""

PASSED_ON = (*process.DOCKER, "PIP_*", "UV_*", "SLIPWAY_*", "HYPOTHESIS_*", "PYTEST_*", "CI", "NO_COLOR", "FORCE_COLOR")
EXIT_CODES = {0: 0, 1: 1, 2: 130, 3: 1, 4: 2, 5: 2}
"""pytest's exit codes (https://docs.pytest.org/en/stable/reference/exit-codes.html) → ours. No tests found is wrong
usage, never a pass."""


@dataclass(frozen=True)
class Choice:
    """What to run: folders or files of tests, whether they need an image, and options for pytest itself."""

    paths: tuple[str, ...]
    needs_image: bool
    options: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = " ".join(DEFAULT)
    parser.add_argument("words", nargs="*", metavar="SUITE|PATH", help=f"a suite or test files; default: {default}")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    parser.add_argument("--image", metavar="REF", help="test this image, which the engine has, instead of building one")
    build.add_image(parser)
    two_nodes.add_arguments(parser)
    parser.usage = "build.py test [unit|deploy|container|gpu|all|PATH ...] [OPTIONS] [-- PYTEST OPTIONS]"
    parser.set_defaults(options=[])
    parser.parse_args = functools.partial(_parse, parser.parse_args)  # type: ignore[method-assign,assignment]


def _parse(parse: Callable[[Sequence[str]], argparse.Namespace], words: Sequence[str]) -> argparse.Namespace:
    """What stands behind `--` is pytest's. argparse would take it for more suites and paths, and only where no option
    stands before it.
    """
    cut = [*words, "--"].index("--")
    parsed = parse(words[:cut])
    parsed.options = list(words[cut + 1 :])
    return parsed


def run(args: argparse.Namespace) -> int:
    choice = choose(args.words, args.options)
    nodes = two_nodes.of(args)
    with contextlib.ExitStack() as stack:
        more: dict[str, str] = {}
        if choice.needs_image and not nodes.nodes:
            before = firewall.take().as_text()
            engine = stack.enter_context(session.available(common.cache_home() / "engine"))
            own = {FIREWALL: before} if engine.address else {}
            image = _named(args.image, engine) if args.image else build_and_load(args, engine)
            more = {**engine.env, **own, IMAGE: image, RUN: f"{os.getpid()}"}
            stack.callback(_remove_containers, engine, more[RUN])
        return _pytest(pytest_command(choice, args.junit), {**more, **nodes.as_environment()})


def _named(reference: str, engine: Engine) -> str:
    """The image of --image. Raises UsageError when the engine does not have it."""
    if engine.image(reference) is None:
        hint = "; this one was started just now and is empty" if engine.address else ""
        raise UsageError(
            f"the engine has no image {reference!r}{hint}", remedy=f"docker pull {reference}, or docker load"
        )
    return reference


def choose(words: Sequence[str], options: Sequence[str] = (), tests: Path = TESTS) -> Choice:
    """Sort the words of the command line. Raises UsageError on one that is no suite and no path."""
    paths: list[str] = []
    suites: list[str] = []
    for word in words:
        if word in SUITES:
            suites += [name for name in SUITES[word] if word != "all" or (tests / name).is_dir()]
        elif Path(word.partition("::")[0]).exists():
            paths.append(word)
        else:
            raise UsageError(
                f"{word!r} is neither a suite nor a path of tests",
                remedy=f"suites: {', '.join(SUITES)}; options of pytest go behind --, e.g. test unit -- -k load",
            )
    if not suites and not paths:
        suites = [*DEFAULT]
    for name in suites:
        if not (tests / name).is_dir():
            raise UsageError(f"there are no {name} tests here", where=tests / name)
    chosen = [str(tests / name) for name in dict.fromkeys(suites)] + paths
    needs = any(
        Path(path.partition("::")[0]).resolve().is_relative_to(tests / n) for path in chosen for n in NEEDS_IMAGE
    )
    covers_all = any(tests.is_relative_to(Path(path).resolve()) for path in paths)
    return Choice(tuple(chosen), needs or covers_all, tuple(options))


def pytest_command(choice: Choice, junit: Path | None) -> list[str]:
    """One pytest run over everything, so that its closing line counts everything."""
    report = [] if junit is None else [f"--junit-xml={junit.absolute()}"]
    config = ["-c", str(common.ROOT / "pyproject.toml"), "--rootdir", str(common.ROOT), "-p", "no:cacheprovider"]
    return [sys.executable, "-P", "-m", "pytest", *config, *report, *choice.options, *choice.paths]


def _pytest(command: Sequence[str], more: Mapping[str, str]) -> int:
    """Run pytest to its end; an interrupt is passed on, so that it can clean up after itself."""
    sys.stdout.flush()
    environment = process.environment(PASSED_ON, {"PYTHONUTF8": "1", **more})
    with subprocess.Popen(list(command), env=environment, cwd=common.ROOT, stdin=subprocess.DEVNULL) as pytest:
        try:
            pytest.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(subprocess.TimeoutExpired):
                pytest.send_signal(signal.SIGINT)
                pytest.wait(60)
            pytest.kill()
            raise
    return EXIT_CODES.get(pytest.returncode, 1)


def _remove_containers(engine: Engine, run_id: str) -> None:
    """Remove what the tests left: nothing, unless they were killed."""
    left = engine.docker("ps", "-aq", "--filter", f"label={LABEL}={run_id}", check=False).out.split()
    if left:
        engine.docker("rm", "-f", *left, check=False)
