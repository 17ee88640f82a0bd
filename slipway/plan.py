"""Plans: every layer of an image with its key, and why it has to be made or need not be. Touches nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.host.replace import write_whole
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.lock.model import Artifact

if TYPE_CHECKING:
    from slipway.build import Context

Maker = Callable[["Context"], CachedLayer]


@dataclass(frozen=True)
class LayerRecipe:
    """One layer before it exists: what its key says, which artifacts it is made from, and how to make it.

    inputs: the document behind the key, JSON-ready; two recipes with equal inputs give equal bytes
    needs:  names of layers that must be there before this one is made
    """

    name: str
    kind: str
    key: str
    inputs: Mapping[str, Any]
    artifacts: tuple[Artifact, ...]
    make: Maker = field(compare=False)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedLayer:
    """A recipe with what the cache knows: `cached` is None when the layer has to be made, `why` says the reason."""

    recipe: LayerRecipe
    cached: CachedLayer | None
    why: str

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.recipe.name,
            "kind": self.recipe.kind,
            "key": self.recipe.key,
            "state": "hit" if self.cached else "miss",
            "why": self.why,
            "bytes": self.cached.blob.size if self.cached else None,
            "input_bytes": sum(artifact.size for artifact in self.recipe.artifacts),
        }


@dataclass(frozen=True)
class Plan:
    """All layers of one image, in the order in which they are unpacked."""

    image: str
    layers: tuple[PlannedLayer, ...]
    notes: tuple[str, ...] = ()

    @property
    def misses(self) -> tuple[PlannedLayer, ...]:
        return tuple(layer for layer in self.layers if layer.cached is None)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What the layers that have to be made are made from, each once."""
        return tuple({a.sha256: a for layer in self.misses for a in layer.recipe.artifacts}.values())


def make_plan(image: str, recipes: Sequence[LayerRecipe], cache: LayerCache, notes: Sequence[str] = ()) -> Plan:
    """Look every recipe up in the cache. Reads the cache folder, changes nothing."""
    before = _read_last(cache, image)
    layers = []
    for recipe in recipes:
        cached = cache.get(recipe.key)
        layers.append(PlannedLayer(recipe, cached, "in the cache" if cached else _why(recipe, before)))
    return Plan(image, tuple(layers), tuple(notes))


def remember(plan: Plan, cache: LayerCache) -> None:
    """Note what this image was made from, so that the next plan can say what changed."""
    path = _last_path(cache, plan.image)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {layer.recipe.name: _flat(layer.recipe.inputs) for layer in plan.layers}
    write_whole(path, json.dumps(document, sort_keys=True).encode())


def _last_path(cache: LayerCache, image: str) -> Path:
    return cache.root / "plans" / f"{image}.json"


def _read_last(cache: LayerCache, image: str) -> dict[str, dict[str, str]]:
    try:
        document = json.loads(_last_path(cache, image).read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _why(recipe: LayerRecipe, before: Mapping[str, Mapping[str, str]]) -> str:
    if recipe.inputs.get("provisional"):
        return "known once all wheels are in the store"
    old = before.get(recipe.name)
    if old is None:
        return "never made on this machine"
    new = _flat(recipe.inputs)
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if not changed:
        return "no longer in the cache"
    shown = ", ".join(_change(name, old.get(name), new.get(name)) for name in changed[:3])
    return shown + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _change(name: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"{name} is new"
    if new is None:
        return f"{name} is gone"
    return f"{name} changed"


def _flat(value: object, path: str = "") -> dict[str, str]:
    """`{"a": {"b": 1}}` → `{"a.b": "1"}`: one line per input, for comparing. Lists of named things go by name."""
    if isinstance(value, Mapping):
        flat: dict[str, str] = {}
        for key, inner in value.items():
            flat |= _flat(inner, f"{path}.{key}" if path else str(key))
        return flat
    if isinstance(value, (list, tuple)):
        flat = {}
        for place, inner in enumerate(value):
            name = inner.get("name") if isinstance(inner, Mapping) else None
            if name is None and isinstance(inner, str):
                flat[f"{path} {inner}"] = "present"
                continue
            flat |= _flat(inner, f"{path} {name if name is not None else place}".strip())
        return flat
    return {path: str(value)}
