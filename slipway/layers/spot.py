"""A spot check of the layer cache: one layer of an image, chosen at random, is made again and compared.

What came from a shared cache is bound to its key by a list or by trust; this is how a wrong entry is found without
making everything again. Layers that are made over others (ldcache) are left out.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.errors import UsageError
from slipway.layers.cache import CachedLayer, LayerCache

if TYPE_CHECKING:
    from slipway.build import Context
    from slipway.plan import PlannedLayer


@dataclass(frozen=True)
class Spot:
    """The layer that was chosen, as the cache has it and as it was made again."""

    name: str
    cached: CachedLayer
    digest: str

    @property
    def same(self) -> bool:
        return self.cached.blob.digest == self.digest


def choose(layers: Sequence[PlannedLayer], chance: random.Random | None = None) -> PlannedLayer:
    """One that is cached and can be made alone. Raises UsageError where there is none."""
    able = [layer for layer in layers if layer.cached is not None and not layer.recipe.needs]
    if not able:
        raise UsageError("no layer of this image is in the cache", remedy="python3 build.py")
    return (chance or random.SystemRandom()).choice(able)


def check(layer: PlannedLayer, context: Context) -> Spot:
    """Make `layer` again in an empty cache. Raises what making it raises."""
    if layer.cached is None:
        raise UsageError(f"layer {layer.recipe.name} is not in the cache")
    with tempfile.TemporaryDirectory(prefix="spot-", dir=context.cache.root) as folder:
        again = layer.recipe.make(dataclasses.replace(context, cache=LayerCache(Path(folder))))
        return Spot(layer.recipe.name, layer.cached, again.blob.digest)
