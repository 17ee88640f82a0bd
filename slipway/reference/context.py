"""The folder that docker/Dockerfile is built from: the lock's own files under their names, and no network."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from slipway.errors import BuildFailed
from slipway.inspect.layout import LayerRef
from slipway.inspect.stream import LayerStream
from slipway.inspect.untar import CHUNK
from slipway.layers.cache import CachedLayer
from slipway.layers.entry import Entry
from slipway.lock.model import Wheel
from slipway.store import Store


def write(
    folder: Path,
    dockerfile: Path,
    system: Mapping[str, CachedLayer],
    wheels: Iterable[Wheel],
    files: Iterable[Entry],
    store: Store,
) -> None:
    """system: layers by name, written as NAME.tar; files: entries below files/. Raises BuildFailed without uv."""
    shutil.copyfile(dockerfile, folder / "Dockerfile")
    for name, layer in system.items():
        _plain(layer, folder / f"{name}.tar")
    wheels = sorted(wheels, key=lambda wheel: wheel.name)
    (folder / "wheels").mkdir()
    for wheel in wheels:
        _link(store.checked(wheel), folder / "wheels" / wheel.file)
    (folder / "requirements.txt").write_text(requirements(wheels))
    _uv(wheels, store, folder / "tools")
    for entry in files:
        path = folder / "files" / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "symlink":
            path.symlink_to(entry.target)
        elif entry.read is not None:
            with path.open("wb") as out:
                out.writelines(entry.read())
            path.chmod(entry.mode)


def requirements(wheels: Iterable[Wheel]) -> str:
    """One line for each wheel, exact and hashed."""
    return "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)


def _uv(wheels: Iterable[Wheel], store: Store, folder: Path) -> None:
    """uv's program, out of the lock's wheel of it."""
    wheel = next((wheel for wheel in wheels if wheel.name == "uv"), None)
    if wheel is None:
        raise BuildFailed(
            "the lock has no uv, which the reference build installs with", remedy="pin uv in versions.toml"
        )
    with zipfile.ZipFile(store.path(wheel.sha256)) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
        folder.mkdir()
        (folder / "uv").write_bytes(archive.read(member))
    (folder / "uv").chmod(0o755)


def _plain(layer: CachedLayer, target: Path) -> None:
    blob = layer.blob
    ref = LayerRef(0, target.name, blob.digest, blob.size, blob.media_type, blob.diff_id, layer.path)
    with layer.path.open("rb") as file, target.open("wb") as out:
        stream = LayerStream(ref, file)
        while chunk := stream.read(CHUNK):
            out.write(chunk)
        stream.finish()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
