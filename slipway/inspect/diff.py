"""What changed between two images: labels and start, packages, layers, files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slipway.inspect.image import Image
from slipway.inspect.tree import Node

Pair = tuple[str | None, str | None]
"""Before and after; None: was not there, or is no more."""


@dataclass(frozen=True)
class FileChange:
    """One path. kind: "added", "removed", "content" or "mode" (rights, owner or kind). growth in bytes, unpacked."""

    path: str
    kind: str
    growth: int
    owner: str
    what: str = ""


@dataclass(frozen=True)
class LayerChange:
    """A layer by name. sizes in compressed bytes; state: "shared" (same bytes), "changed", "added" or "removed"."""

    name: str
    state: str
    before: int
    after: int


@dataclass(frozen=True)
class ImageDiff:
    """All differences; `to_pull` is what a machine that has the first image moves to get the second, in bytes."""

    before: str
    after: str
    size_before: int
    size_after: int
    to_pull: int
    settings: Mapping[str, Pair]
    packages: Mapping[str, Pair]
    layers: tuple[LayerChange, ...]
    files: tuple[FileChange, ...]

    @property
    def same(self) -> bool:
        """Whether both are one image: equal manifests."""
        return self.before == self.after

    def as_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


def compare(before: Image, after: Image) -> ImageDiff:
    """Compare two images. Pure: reads nothing."""
    layers = tuple(_layers(before, after))
    documents = after.layout.size - sum(ref.size for ref in after.layout.layers)
    same = before.layout.digest == after.layout.digest
    return ImageDiff(
        before.layout.digest,
        after.layout.digest,
        before.layout.size,
        after.layout.size,
        0 if same else documents + sum(layer.after for layer in layers if layer.state != "shared"),
        _pairs(_settings(before), _settings(after)),
        _pairs(_packages(before), _packages(after)),
        layers,
        () if same else tuple(_files(before, after)),
    )


def _pairs(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Pair]:
    names = sorted({*before, *after})
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def _settings(image: Image) -> dict[str, str]:
    """Labels, and how containers start, flat: `label io.slipway.release`, `env PATH`, `User`."""
    flat = {f"label {name}": value for name, value in image.layout.labels.items()}
    flat |= {f"env {name}": value for name, value in image.layout.env.items()}
    flat["architecture"] = image.layout.architecture
    for name, value in image.layout.runtime.items():
        if name in ("Labels", "Env") or value in (None, [], {}, ""):
            continue
        if isinstance(value, Mapping):
            value = sorted(value)
        flat[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat


def _packages(image: Image) -> dict[str, str]:
    versions: dict[str, list[str]] = defaultdict(list)
    for package in image.packages:
        versions[f"{package.kind} {package.name}"].append(package.version)
    return {name: ", ".join(sorted(set(found))) for name, found in versions.items()}


def _layers(before: Image, after: Image) -> Iterable[LayerChange]:
    """By name, in the second image's order; a layer of the same bytes is shared under whatever name."""
    old = {ref.name: ref for ref in before.layout.layers}
    had = {ref.digest for ref in before.layout.layers}
    for ref in after.layout.layers:
        was = old.get(ref.name)
        state = "shared" if ref.digest in had else "changed" if was else "added"
        yield LayerChange(ref.name, state, was.size if was else ref.size if state == "shared" else 0, ref.size)
    names, digests = {r.name for r in after.layout.layers}, {r.digest for r in after.layout.layers}
    for ref in before.layout.layers:
        if ref.name not in names and ref.digest not in digests:
            yield LayerChange(ref.name, "removed", ref.size, 0)


def _files(before: Image, after: Image) -> Iterable[FileChange]:
    old, new = before.tree.nodes, after.tree.nodes
    for path in sorted({*old, *new}):
        one, two = old.get(path), new.get(path)
        if one is None and two is not None:
            yield FileChange(path, "added", two.member.size, after.owner(two))
        elif two is None and one is not None:
            yield FileChange(path, "removed", -one.member.size, before.owner(one))
        elif one is not None and two is not None:
            yield from _change(one, two, after.owner(two))


def _change(one: Node, two: Node, owner: str) -> Iterable[FileChange]:
    a, b = one.member, two.member
    growth = b.size - a.size
    rights = [f"{a.mode:o} → {b.mode:o}"] if a.mode != b.mode and b.kind != "symlink" else []
    if (a.uid, a.gid) != (b.uid, b.gid):
        rights.append(f"{a.uid}:{a.gid} → {b.uid}:{b.gid}")
    if _kind(a.kind) != _kind(b.kind):
        yield FileChange(one.path, "mode", growth, owner, ", ".join([f"{a.kind} → {b.kind}", *rights]))
    elif a.sha256 != b.sha256 or (a.target != b.target and a.kind == b.kind == "symlink"):
        what = [f"→ {a.target} is now → {b.target}"] if a.kind == "symlink" else []
        yield FileChange(one.path, "content", growth, owner, ", ".join([*what, *rights]))
    elif rights:
        yield FileChange(one.path, "mode", growth, owner, ", ".join(rights))


def _kind(kind: str) -> str:
    """A hard link is a file like the one it shares."""
    return "file" if kind == "hardlink" else kind
