"""From `--base REF@sha256:…` to a base that fits: pulled, read, examined."""

from __future__ import annotations

from pathlib import Path

from slipway.base.examine import examine
from slipway.base.layers import Base
from slipway.errors import MissingError, SlipwayError, UsageError, WrongArtifact
from slipway.host.replace import write_whole
from slipway.inspect.image import read_image
from slipway.layers.cache import LayerCache
from slipway.pins.model import Selection
from slipway.progress import Progress
from slipway.registry.client import Repository
from slipway.registry.pull import pull
from slipway.registry.reference import Reference, parse_reference
from slipway.sources.http import Http
from slipway.sources.outcome import Absent, NotHad, WrongBytes
from slipway.store.fetch import FetchOptions


def find_base(text: str, selection: Selection, cache: LayerCache, options: FetchOptions, progress: Progress) -> Base:
    """The base, from the cache or its registry. Raises UsageError for a reference that names no bytes, InvalidInput
    for a base that does not fit, MissingError and WrongArtifact where it can't be had."""
    reference = parse_reference(text)
    if not reference.digest:
        raise UsageError(
            f"{reference} does not say which bytes it means",
            why="a tag means other bytes tomorrow: nobody could build the same image again",
            remedy="name it with its digest: HOST/NAME@sha256:…",
        )
    with progress.step("base") as step:
        layout = _layout(reference, selection.arch, cache.root / "base", options, progress)
        image = read_image(layout, cache=cache.root / "inspect" / "layers")
        facts = examine(image, selection, str(reference))
        step.note(f"{len(image.layout.layers)} layers, Python {facts.version}")
    return Base(str(reference), image.layout.digest, image, facts)


def _layout(reference: Reference, arch: str, home: Path, options: FetchOptions, progress: Progress) -> Path:
    """Where the base's layout lies. Pulled once: its digest says that it can't have changed."""
    note = home / "pulled" / f"{reference.digest.removeprefix('sha256:')}-{arch}"
    try:
        folder = home / note.read_text()
        if (folder / "index.json").exists():
            return folder
    except OSError:
        pass
    http = Http(policy=options.policy, notify=progress.warn)
    try:
        folder = pull(Repository(reference, http), arch, home, progress)
    except NotHad as error:
        raise _error(reference, error) from error
    note.parent.mkdir(parents=True, exist_ok=True)
    write_whole(note, folder.name.encode())
    return folder


def _error(reference: Reference, error: NotHad) -> SlipwayError:
    if isinstance(error, WrongBytes):
        return WrongArtifact(f"{reference} is not what its digest says", where=error.address, why=error.reason)
    return MissingError(
        f"{reference} {'is not there' if isinstance(error, Absent) else 'can not be pulled'}",
        where=error.address,
        why=error.reason,
        remedy="see to the name, the network and the login (docker login)",
    )
