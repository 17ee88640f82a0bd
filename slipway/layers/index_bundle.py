"""The indexes of all an image's wheels as one cached thing: a machine that has no wheels yet learns the layers' keys
from it, and downloads finished layers instead of wheels.

It is kept and bound to its key like a layer (one JSON object by wheel's sha256), and enters no image.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import zstandard

from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.key import layer_key
from slipway.lock.model import Wheel
from slipway.wheel.index import INDEX_FORMAT, Indexes, WheelIndex

KIND = "indexes"


def bundle_key(wheels: Iterable[Wheel], indexes: Indexes) -> str:
    """Of the wheels that are downloaded; those that the driver makes are at hand everywhere."""
    names = sorted(indexes.path(wheel).name for wheel in wheels if not wheel.made)
    return layer_key(KIND, {"indexes": names, "format": INDEX_FORMAT})


def bundle(wheels: Iterable[Wheel], indexes: Indexes, cache: LayerCache) -> CachedLayer | None:
    """The bundle of indexes that are all known here, None where one is not."""
    wanted = [wheel for wheel in wheels if not wheel.made]
    found = {wheel.sha256: indexes.get(wheel) for wheel in wanted}
    texts = {sha256: index.dump() for sha256, index in sorted(found.items()) if index is not None}
    if len(texts) < len(found):
        return None
    content = json.dumps(texts, sort_keys=True).encode()
    return cache.build(bundle_key(wanted, indexes), lambda writer: writer.write(content))


def unbundle(file: Path, wheels: Iterable[Wheel], indexes: Indexes) -> int:
    """Keep the bundle's indexes of wheels that have none here. How many. A damaged bundle gives none."""
    try:
        with file.open("rb") as stream:
            texts = json.load(zstandard.ZstdDecompressor().stream_reader(stream))
        new = [(w, WheelIndex.load(texts[w.sha256])) for w in wheels if w.sha256 in texts and indexes.get(w) is None]
    except (OSError, ValueError, KeyError, TypeError, zstandard.ZstdError):
        return 0
    for wheel, index in new:
        indexes.put(wheel, index)
    return len(new)
