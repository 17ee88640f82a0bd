"""The image that container tests run: built from the lock, or, where a Debian mirror has moved on, from a fresh one.

A Debian mirror keeps only the newest .deb of a suite, so every lock rots at the suite's next point release. That is
not a broken checkout, and tests should tell the two apart: the .debs are locked anew into a temporary folder, an
image of that lock is tested, and it is said loudly. Anything else that is not as pinned stays a failure.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from slipway.assemble import Image, assemble
from slipway.cli import build as build_verb
from slipway.cli import lock as lock_verb
from slipway.engine.model import Engine
from slipway.load.load import load
from slipway.lock.model import PoolFile
from slipway.progress import Progress, open_progress
from slipway.store.report import ArtifactsWrong

MOVED_ON = """
======================================================================================================
  The Debian mirror moved on: {count} locked packages are gone from every source, e.g. {example}.
  The tests run on an image of a lock made just now, which is NOT the committed one.
  Commit the outcome of: python3 build.py lock --upgrade debian
======================================================================================================
"""


def build_and_load(args: argparse.Namespace, engine: Engine) -> str:
    """Build the image that `build`'s options in `args` mean, load it, and return its name in the engine.

    Quick where its layers are cached. Raises what building and loading raise.
    """
    with open_progress() as progress, tempfile.TemporaryDirectory(prefix="slipway-locks-") as locks:
        image = build(args, Path(locks), progress)
        loaded = load(image.folder, engine, image.reference, progress)
        progress.say(f"testing {loaded.reference} in Docker {engine.version} ({engine.store} store, {loaded.how})")
    return loaded.reference


def build(args: argparse.Namespace, locks: Path, progress: Progress) -> Image:
    """Build from the committed lock; where its .debs are gone, lock them anew into `locks` and build from there."""
    asked = build_verb.request(args, progress)
    try:
        return assemble(asked, progress)
    except ArtifactsWrong as error:
        if not mirror_moved_on(error):
            raise
        example = error.findings[0].artifact.label
        progress.warn(MOVED_ON.format(count=len(error.findings), example=example))
    fresh = argparse.Namespace(
        **{**vars(args), "locks": locks, "output": asked.output.with_name(f"{asked.output.name}-relocked")}
    )
    lock_verb.run(lock_arguments(args, locks))
    return assemble(build_verb.request(fresh, progress), progress)


def lock_arguments(args: argparse.Namespace, locks: Path) -> argparse.Namespace:
    """What `lock --upgrade debian --output LOCKS` is given, for the image that `args` mean."""
    parser = argparse.ArgumentParser()
    lock_verb.add_arguments(parser)
    selection = [f"--{name}={value}" for name in ("release", "variant", "arch") if (value := getattr(args, name))]
    mirrors = [f"--mirror={mirror}" for mirror in args.mirrors]
    return parser.parse_args([*selection, *mirrors, "--upgrade=debian", f"--output={locks}"])


def mirror_moved_on(error: ArtifactsWrong) -> bool:
    """Whether all that is wrong is that files of Debian's archive are gone; other bytes under a name never are."""
    return all(finding.kind == "gone" and isinstance(finding.artifact, PoolFile) for finding in error.findings)
