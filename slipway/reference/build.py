"""Runs the reference build in an engine: the same lock through BuildKit and uv, to a tar of the tree or an image."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from slipway.assemble import Request, plan
from slipway.build import Context, make_layers
from slipway.engine.model import Engine
from slipway.errors import BuildFailed, MissingError
from slipway.image import share
from slipway.layers import cuda_home
from slipway.layers.pool import WorkerPool
from slipway.plan import Plan
from slipway.progress import Progress
from slipway.recipes import Recipes
from slipway.reference import context
from slipway.store.fetch import fetch_artifacts

SYSTEM = ("debian", "fabric")
DOCKERFILE = Path("docker") / "Dockerfile"


def build(request: Request, engine: Engine, output: str, progress: Progress) -> None:
    """Build and export. output: BuildKit's --output value, e.g. `type=tar,dest=FILE` or `type=docker,name=X`.

    Raises MissingError without BuildKit, BuildFailed where it fails, and what making the system layers raises.
    """
    need_buildx(engine)
    with context_of(request, progress) as folder, progress.step("docker build") as step:
        engine.docker(
            *("buildx", "build", "--progress=plain", "--network=none", "--provenance=false", "--no-cache"),
            *("--build-arg", f"PYTHON={request.selection.python}", "--output", output, folder),
            error=BuildFailed,
        )
        step.note(output.partition(",")[0])


def need_buildx(engine: Engine) -> None:
    """Raises MissingError where the engine has no BuildKit command line."""
    if engine.docker("buildx", "version", check=False).code != 0:
        raise MissingError(
            "the reference build needs BuildKit's command line, docker buildx",
            remedy="apt-get install docker-buildx, or docker-buildx-plugin from Docker's own archive",
        )


@contextlib.contextmanager
def context_of(request: Request, progress: Progress) -> Iterator[Path]:
    """The folder that docker/Dockerfile is built from, for the time of the block. Fetches and makes what it lacks."""
    first, found = plan(request)
    for wheel, content in found.made.items():
        if not request.store.has(wheel):
            request.store.add_bytes(content)
    fetch_artifacts([wheel for wheel in request.lock.wheels if not wheel.made], request.store, request.fetch, progress)
    first, found = plan(request)
    first = Plan(first.image, tuple(layer for layer in first.layers if layer.recipe.name in SYSTEM), first.notes)
    wanted = first.artifacts
    if wanted:
        fetch_artifacts(wanted, request.store, request.fetch, progress)
    with WorkerPool(request.jobs) as pool:
        made = make_layers(first, Context(request.store, request.cache, pool, progress, request.jobs, request.sandbox))
    parent = request.cache.root / "work"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reference-", dir=parent) as name:
        folder = Path(name)
        system = {layer.recipe.name: blob for layer, blob in zip(first.layers, made, strict=True)}
        wheels = {wheel.sha256: wheel for wheel in (*request.lock.wheels, *found.made)}.values()
        entries = [*share.entries(request.root, request.lock), *cuda_home.entries(_paths(request, found))]
        context.write(folder, request.root / DOCKERFILE, system, wheels, entries, request.store)
        yield folder


def _paths(request: Request, found: Recipes) -> set[str]:
    """All paths that wheels install."""
    if found.indexes is None:
        return set()
    indexes = [found.indexes.get(wheel) for wheel in request.lock.wheels]
    return {path for index in indexes if index is not None for path in index.files}
