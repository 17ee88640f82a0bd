"""From pins to an OCI layout: plan, fetch what missing layers need, make them, check the image, write it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway import lock as locks
from slipway.base.layers import Base
from slipway.build import Context, check_space, make_layers
from slipway.debian import layer as debian
from slipway.errors import Problem, UsageError
from slipway.fabric import layer as fabric
from slipway.gates.run import run_gates
from slipway.gates.settings import settings_of
from slipway.host import apt
from slipway.host.packages import UNPRIVILEGED
from slipway.image.config import ImageLayer, image_config
from slipway.image.definition import base_labels, labels, reference, runtime
from slipway.image.layout import write_layout
from slipway.image.manifest import CONFIG, Document, canonical, manifest
from slipway.image.place import check_output, check_writable
from slipway.layers import index_bundle, records, wheels
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.pool import WorkerPool
from slipway.layers.remote import RemoteCache
from slipway.lock import file
from slipway.lock.check import StaleLock, differences
from slipway.lock.model import Artifact, Lock
from slipway.pins.model import Selection
from slipway.plan import Plan, make_plan, remember
from slipway.progress import Progress
from slipway.recipes import Recipes, recipes
from slipway.store import Store
from slipway.store.fetch import FetchOptions, bytes_to_fetch, fetch_artifacts


@dataclass(frozen=True)
class Request:
    """Which image, from where, and where it goes. root: the checkout.

    remote:      a layer cache in a registry, asked before anything is fetched or made
    push_layers: push the finished layers there
    record:      committed list to write, of which bytes belong to which key
    """

    selection: Selection
    lock: Lock
    root: Path
    store: Store
    cache: LayerCache
    output: Path
    fetch: FetchOptions
    jobs: int
    sandbox: str = "strong"
    base: Base | None = None
    remote: RemoteCache | None = None
    push_layers: bool = False
    record: Path | None = None


@dataclass(frozen=True)
class Image:
    """A finished image: what its layout in `folder` holds."""

    folder: Path
    reference: str
    digest: str
    config_digest: str
    layers: Sequence[ImageLayer]
    made: Sequence[str]

    @property
    def size(self) -> int:
        """Bytes of all compressed layers."""
        return sum(layer.blob.size for layer in self.layers)

    def as_json(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "config": self.config_digest,
            "reference": self.reference,
            "output": str(self.folder),
            "bytes": self.size,
            "bytes_made": sum(layer.blob.size for layer in self.layers if layer.name in self.made),
            "layers": [
                {
                    "name": layer.name,
                    "key": layer.key,
                    "digest": layer.blob.digest,
                    "diff_id": layer.blob.diff_id,
                    "bytes": layer.blob.size,
                    "state": "made" if layer.name in self.made else "cached",
                }
                for layer in self.layers
            ],
        }


def read_lock(selection: Selection, folder: Path = locks.FOLDER) -> Lock:
    """The committed lock of an image. Raises UsageError where there is none, StaleLock where the pins
    have moved on."""
    path = locks.path(selection.release, selection.variant, selection.arch, folder)
    command = (
        f"python3 build.py lock --release {selection.release} --variant {selection.variant} --arch {selection.arch}"
    )
    if not path.exists():
        raise UsageError(
            f"there is no lock for {selection.label}",
            where=path,
            why="only what is locked can be built: exact versions with their hashes",
            remedy=command,
        )
    lock = file.read(path)
    if lock.pins != selection.checksum:
        found = [Problem(str(path), 0, what, remedy) for what, remedy in differences(selection, lock)]
        raise StaleLock(f"the lock of {selection.label} is stale: run `{command}`", found)
    return lock


def plan(request: Request) -> tuple[Plan, Recipes]:
    """What a build would do. Touches nothing but the cache's indexes of wheels."""
    found = recipes(
        request.selection, request.lock, request.root, request.store, request.cache, request.sandbox, request.base
    )
    notes = list(found.notes)
    if found.missing:
        notes.append(
            f"{len(found.missing)} wheels are not in the store yet: the layers that they share with others can't be "
            "looked up before they are"
        )
    return make_plan(request.selection.label, found.layers, request.cache, notes), found


def assemble(request: Request, progress: Progress) -> Image:
    """Make the image. Raises SlipwayError; whatever was finished by then stays in store and cache."""
    check_output(request.output)
    check_writable(request.cache.root, "cache")
    with request.store.in_use():
        image = _made(request, progress)
    _gated(request, image, progress)
    return image


def _made(request: Request, progress: Progress) -> Image:
    first, found = plan(request)
    _tools(first)
    check_space(first, request.cache.root, bytes_to_fetch(to_fetch(first, found), request.store))
    for wheel, content in found.made.items():
        if not request.store.has(wheel):
            request.store.add_bytes(content)
    if request.remote is not None:
        first, found = from_remote(request, request.remote, first, found, progress)
    if found.missing:
        fetch_artifacts([wheel for wheel in found.missing if not wheel.made], request.store, request.fetch, progress)
        first, found = plan(request)
    wanted = to_fetch(first, found)
    if wanted:
        fetch_artifacts(wanted, request.store, request.fetch, progress)
    with WorkerPool(request.jobs) as pool:
        context = Context(request.store, request.cache, pool, progress, request.jobs, request.sandbox)
        layers = make_layers(first, context)
    if request.remote is not None and request.record is None:
        named = [(layer.recipe.name, made.key, made.blob) for layer, made in zip(first.layers, layers, strict=True)]
        records.hold(request.remote.known, named, f"locks/layers/{request.selection.label}.txt")
    image = write_image(request, first, layers)
    remember(first, request.cache)
    shared = [*layers, *_indexes(request, found)]
    if request.record is not None:
        names = [*(layer.recipe.name for layer in first.layers), index_bundle.KIND]
        written = zip(names, shared, strict=False)
        records.write(request.record, [(name, layer.key, layer.blob) for name, layer in written])
    if request.remote is not None and request.push_layers:
        with progress.step("push layers", len(shared)) as step:
            sent = 0
            for layer in shared:
                sent += request.remote.put(layer)
                step.advance()
            step.note(f"{sent} of {len(shared)} were new")
    return image


def _indexes(request: Request, found: Recipes) -> list[CachedLayer]:
    """The bundle of wheels' indexes, where it is wanted and all are known."""
    if found.indexes is None or not (request.record or request.push_layers):
        return []
    made = index_bundle.bundle(request.lock.wheels, found.indexes, request.cache)
    return [] if made is None else [made]


def from_remote(
    request: Request, remote: RemoteCache, first: Plan, found: Recipes, progress: Progress
) -> tuple[Plan, Recipes]:
    """Take what the remote cache has, and plan again. Without wheels the layers' keys come from the bundle of indexes;
    what it says is dropped again where wheels have to be downloaded anyway, so that only wheels decide what is made."""
    if not first.misses:
        return first, found
    brought: list[Path] = []
    if found.missing and found.indexes is not None:
        taken = remote.take(index_bundle.bundle_key(request.lock.wheels, found.indexes), request.cache, progress)
        if taken is not None:
            index_bundle.unbundle(taken.checked(), found.missing, found.indexes)
            brought = [found.indexes.path(wheel) for wheel in found.missing]
            first, found = plan(request)
    asked = [layer.recipe for layer in first.misses if not layer.recipe.inputs.get("provisional")]
    with progress.step("layer cache", len(asked)) as step:
        taken_count = 0
        for recipe in asked:
            taken_count += remote.take(recipe.key, request.cache, progress) is not None
            step.advance()
        step.note(f"{taken_count} of {len(asked)} layers taken")
    if remote.refused:
        progress.warn(
            f"{len(remote.refused)} layers of the cache stand in no committed list and are made here; "
            "--trust-cache takes them"
        )
    first, found = plan(request)
    if brought and any(layer.recipe.kind == wheels.KIND for layer in first.misses):
        for path in brought:
            path.unlink(missing_ok=True)
        first, found = plan(request)
    return first, found


def _gated(request: Request, image: Image, progress: Progress) -> None:
    """Run the gates. An image that is refused is no longer one: its index becomes refused.json, so that it can be
    looked at and neither loaded nor pushed."""
    settings = settings_of(request.selection)
    with progress.step("gates") as step:
        report = run_gates(image.folder, settings, cache=request.cache.root / "inspect", jobs=request.jobs)
        excused = sum(len(result.excused) for result in report.results)
        step.note(f"{len(report.results)} gates, {excused} findings excused in versions.toml")
    for gate, finding in report.findings("warning"):
        progress.warn(f"gate {gate}: {finding}")
    if not report.ok:
        index = image.folder / "index.json"
        index.replace(index.with_name("refused.json"))
    report.refuse()


def _tools(planned: Plan) -> None:
    """Install what making the missing layers takes, as root; raise MissingError with the command otherwise."""
    kinds = {layer.recipe.kind for layer in planned.misses}
    tools = [
        *(debian.TOOLS if debian.KIND in kinds else ()),
        *(fabric.TOOLS if fabric.KIND in kinds else ()),
    ]
    if tools and os.geteuid() != 0:
        tools += UNPRIVILEGED
    if tools:
        apt.ensure(tools)


def to_fetch(planned: Plan, found: Recipes) -> list[Artifact]:
    """What missing layers are made from and has to be downloaded."""
    made = {wheel.sha256 for wheel in found.made}
    return [artifact for artifact in planned.artifacts if artifact.sha256 not in made]


def write_image(request: Request, planned: Plan, layers: Sequence[CachedLayer]) -> Image:
    """Configuration, manifest and layout over finished layers."""
    named = [
        ImageLayer(planned_layer.recipe.name, planned_layer.recipe.key, layer.blob)
        for planned_layer, layer in zip(planned.layers, layers, strict=True)
    ]
    marks = {**labels(request.selection, request.lock), **(base_labels(request.base.name) if request.base else {})}
    how = runtime([layer.name for layer in named])
    config = Document(CONFIG, canonical(image_config(request.selection.arch, how, named, marks)))
    document = manifest(config, named, marks)
    name = reference(request.selection)
    write_layout(
        request.output,
        document,
        config,
        [(layer.blob.digest, layer.path) for layer in layers],
        architecture=request.selection.arch,
        reference=name,
    )
    made = [layer.recipe.name for layer in planned.misses]
    return Image(request.output, name, document.digest, config.digest, named, made)
