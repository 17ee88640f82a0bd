"""A base's layers as layers of ours: re-used byte for byte, and one more that makes the image's user known."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.base.examine import Facts
from slipway.debian import users
from slipway.errors import BuildFailed
from slipway.inspect.image import Image
from slipway.layers.blob import Blob
from slipway.layers.cache import CachedLayer
from slipway.layers.entry import Entry, file_entry
from slipway.layers.files import fingerprint
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.plan import LayerRecipe

if TYPE_CHECKING:
    from slipway.build import Context

KIND = "base"
FIT = "base-fit"
_OCI_TYPES = {
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "application/vnd.oci.image.layer.v1.tar",
}
"""The same bytes under the name that an OCI manifest has for them."""


@dataclass(frozen=True)
class Base:
    """A base that fits. name: its reference, with digest."""

    name: str
    digest: str
    image: Image
    facts: Facts


def recipes(base: Base) -> tuple[LayerRecipe, ...]:
    """Its layers in their order, then the user's."""
    return (*(_layer(base, number) for number in range(len(base.image.layout.layers))), _fit(base))


def _layer(base: Base, number: int) -> LayerRecipe:
    ref, index = base.image.layout.layers[number], base.image.indexes[number]
    inputs: dict[str, Any] = {"digest": ref.digest}
    key = layer_key(KIND, inputs)
    media_type = _OCI_TYPES.get(ref.media_type, ref.media_type)
    blob = Blob(ref.digest, ref.size, ref.diff_id, index.tar_size, media_type)

    def make(context: Context) -> CachedLayer:
        folder = context.cache.root / "work"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="base-", dir=folder) as name:
            file = Path(name) / "layer"
            try:
                os.link(ref.path, file)
            except OSError:
                shutil.copyfile(ref.path, file)
            context.cache.path(key).parent.mkdir(parents=True, exist_ok=True)
            return context.cache.adopt(key, file, blob)

    return LayerRecipe(f"{KIND}-{number + 1}", KIND, key, inputs, (), make)


def _fit(base: Base) -> LayerRecipe:
    entries = fit(base.image, base.name)
    inputs = {"files": fingerprint(entries)}
    key = layer_key(FIT, inputs)
    return LayerRecipe(
        FIT, FIT, key, inputs, (), lambda context: context.cache.build(key, lambda out: write_tar(entries, out))
    )


def fit(image: Image, name: str) -> list[Entry]:
    """The user tables with the image's user in them, and the user's home."""
    table = image.text("etc/passwd")
    if table is None:
        raise BuildFailed("the base has no /etc/passwd", where=name)
    return [
        file_entry("etc/passwd", users.passwd(table.decode(), users.USER).encode(), origin=FIT),
        *users.home(users.USER, {}),
    ]
