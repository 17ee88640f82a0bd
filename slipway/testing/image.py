"""The image that container tests run: built from the lock, or, where a Debian mirror has moved on, from a fresh one.

A Debian mirror keeps only the newest .deb of a suite, so every lock rots at the suite's next point release. That is
not a broken checkout, and tests should tell the two apart: the .debs are locked anew into a temporary folder, an
image of that lock is tested, and it is said loudly. Anything else that is not as pinned stays a failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from slipway.engine.model import Engine
from slipway.errors import SlipwayError
from slipway.load import layout
from slipway.load.load import load
from slipway.lock.model import PoolFile
from slipway.progress import open_progress
from slipway.store.report import ArtifactsWrong

MOVED_ON = """
======================================================================================================
  The Debian mirror moved on: {count} locked packages are gone from every source, e.g. {example}.
  The tests run on an image of a lock made just now, which is NOT the committed one.
  Commit the outcome of: python3 build.py lock --upgrade debian
======================================================================================================
"""


@dataclass(frozen=True)
class Request:
    """Which image, in the options of `build` and `lock`, and the folder it goes to."""

    selection: tuple[str, ...]
    folders: tuple[str, ...]
    output: Path


def build_and_load(request: Request, engine: Engine) -> str:
    """Build the image (quick when its layers are cached), load it, and return its name in the engine."""
    with tempfile.TemporaryDirectory(prefix="slipway-locks-") as folder:
        build(request, Path(folder))
    with open_progress() as progress:
        loaded = load(request.output, engine, layout.read(request.output).reference, progress)
        progress.say(f"testing {loaded.reference} in Docker {engine.version} ({engine.store} store, {loaded.how})")
    return loaded.reference


def build(request: Request, locks: Path) -> None:
    """Run `build`; where it stops because locked .debs are gone, lock them anew into `locks` and build from there."""
    from slipway.cli import build as build_verb
    from slipway.cli import lock as lock_verb

    words = [*request.selection, *request.folders, f"--output={request.output}"]
    try:
        call(build_verb, words)
        return
    except ArtifactsWrong as error:
        if not mirror_moved_on(error):
            raise
        example = error.findings[0].artifact.label
        print(MOVED_ON.format(count=len(error.findings), example=example), file=sys.stderr, flush=True)
    call(lock_verb, [*request.selection, "--upgrade=debian", f"--output={locks}"])
    call(build_verb, [*words, f"--locks={locks}"])


def mirror_moved_on(error: ArtifactsWrong) -> bool:
    """Whether all that is wrong is that files of Debian's archive are gone; other bytes under a name never are."""
    return all(finding.kind == "gone" and isinstance(finding.artifact, PoolFile) for finding in error.findings)


def call(verb: ModuleType, words: Sequence[str]) -> None:
    """Run a verb in this process, so that its error arrives with all it knows. Raises SlipwayError."""
    parser = argparse.ArgumentParser(prog=verb.__name__.rpartition(".")[2])
    verb.add_arguments(parser)
    code = verb.run(parser.parse_args(list(words)))
    if code:
        raise _Stopped(f"{parser.prog} ended with exit code {code}", code)


class _Stopped(SlipwayError):
    """A verb said no without raising: its exit code becomes ours."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what)
        self.exit_code = code
