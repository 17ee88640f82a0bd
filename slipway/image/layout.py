"""Writes an OCI image layout: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md.

Layer blobs are hard links into the layer cache where the file system allows it, so that a build whose layers are
all cached costs no copying. index.json is written last: a layout without it is not an image yet.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from slipway.errors import MissingError
from slipway.host.replace import write_whole
from slipway.image.manifest import Document, canonical, index

LAYOUT_FILE = canonical({"imageLayoutVersion": "1.0.0"})


def write_layout(
    folder: Path,
    manifest: Document,
    config: Document,
    blobs: Iterable[tuple[str, Path]],
    *,
    architecture: str,
    reference: str,
) -> None:
    """Make `folder` the layout of one image; an older image in it is replaced, blobs no longer used are removed.

    blobs: (digest, file) of each layer. reference: the name `docker load` gives the image.
    Raises MissingError when the folder can't be written to or the disk is full.
    """
    try:
        _write(folder, manifest, config, blobs, architecture, reference)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingError(
                "the disk filled up while the image was written", where=folder, remedy="free space, then build again"
            ) from error
        raise MissingError(
            "the output folder can't be written to",
            where=folder,
            why=f"the image is finished but has nowhere to go ({error.strerror})",
            remedy="name another folder with --output, or make this one writable",
        ) from error


def _write(
    folder: Path,
    manifest: Document,
    config: Document,
    blobs: Iterable[tuple[str, Path]],
    architecture: str,
    reference: str,
) -> None:
    store = folder / "blobs" / "sha256"
    store.mkdir(parents=True, exist_ok=True)
    top = index(
        [
            manifest.descriptor(
                platform={"architecture": architecture, "os": "linux"},
                annotations={
                    "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
                    "io.containerd.image.name": reference,
                },
            )
        ]
    )
    index_file = folder / "index.json"
    if index_file.exists() and index_file.read_bytes() != top.content:
        index_file.unlink()
    wanted = {manifest.digest.removeprefix("sha256:"), config.digest.removeprefix("sha256:")}
    for digest, source in blobs:
        name = digest.removeprefix("sha256:")
        wanted.add(name)
        _place(source, store / name)
    for document in (config, manifest):
        _write_file(store / document.digest.removeprefix("sha256:"), document.content)
    _write_file(folder / "oci-layout", LAYOUT_FILE)
    _write_file(index_file, top.content)
    (folder / "refused.json").unlink(missing_ok=True)
    for stray in store.iterdir():
        if stray.name not in wanted:
            stray.unlink()


def _place(source: Path, target: Path) -> None:
    """Hard link, or copy where links can't be had; a target that is this very file already is left alone."""
    if target.exists():
        if target.samefile(source):
            return
        target.unlink()
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        shutil.copyfile(source, part)
        part.replace(target)


def _write_file(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    write_whole(path, content)
