"""An image read back: its documents, the index of each layer, and the tree they make together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.inspect.index import LayerIndex, is_cached, layer_index, make_index
from slipway.inspect.layout import LayerRef, Layout, open_layout
from slipway.inspect.owners import Package
from slipway.inspect.tree import Node, Tree
from slipway.layers.pool import WorkerPool

if TYPE_CHECKING:
    from slipway.inspect.loader import Loader


@dataclass(frozen=True)
class Image:
    """Everything that gates and `diff` look at."""

    layout: Layout
    indexes: tuple[LayerIndex, ...]

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.indexes)

    @cached_property
    def given(self) -> frozenset[int]:
        """Numbers of the layers of somebody else's base that this image stands on (slipway.base)."""
        if "org.opencontainers.image.base.digest" not in self.layout.labels:
            return frozenset()
        return frozenset(ref.number for ref in self.layout.layers if re.fullmatch(r"base-\d+", ref.name))

    def is_given(self, path: str) -> bool:
        """Whether a path comes from such a layer."""
        node = self.tree.nodes.get(path)
        return node is not None and node.layer in self.given

    @cached_property
    def loader(self) -> Loader:
        """Finds libraries in the tree."""
        from slipway.inspect.loader import Loader  # it reads images: imported late, against the circle

        return Loader(self)

    @cached_property
    def packages(self) -> tuple[Package, ...]:
        """Installed packages by kind, name and version: those whose metadata later layers left in place."""
        found = set()
        for number, index in enumerate(self.indexes):
            for package in index.packages:
                node = self.tree.get(package.path)
                if node is not None and node.layer == number:
                    found.add(package)
        return tuple(sorted(found))

    def text(self, path: str) -> bytes | None:
        """The content of a file that the index keeps (content.KEPT), with symlinks followed. None without one."""
        node = self.tree.get(path)
        return None if node is None or node.layer < 0 else self.indexes[node.layer].texts.get(node.member.path)

    def texts(self) -> dict[str, bytes]:
        """All kept texts that the finished image shows, by path."""
        return {
            node.path: self.indexes[node.layer].texts[node.member.path]
            for node in self.tree.files()
            if node.layer >= 0 and node.member.path in self.indexes[node.layer].texts
        }

    def owner(self, node: Node) -> str:
        """Who brought a path: a package, else the layer."""
        if node.member.owner or node.layer < 0:
            return node.member.owner or "nobody"
        return f"layer {self.layout.layers[node.layer].name}"


def read_image(
    source: Path | Layout,
    *,
    cache: Path | None = None,
    jobs: int | None = None,
    architecture: str | None = None,
    done: Callable[[LayerRef], None] | None = None,
) -> Image:
    """Read an OCI layout. Layers whose index `cache` (a folder) lacks are read in `jobs` processes (None: all cores).

    done is called after each layer, in no particular order of layers. Raises UsageError for what is no layout,
    WrongArtifact for damaged blobs, BuildFailed when a worker process died.
    """
    layout = open_layout(source, architecture) if isinstance(source, Path) else source
    jobs = jobs or len(os.sched_getaffinity(0))
    missing = sorted((ref for ref in layout.layers if not is_cached(ref, cache)), key=lambda ref: -ref.size)
    made: dict[str, LayerIndex] = {}
    if min(len(missing), jobs) > 1 and sum(ref.size for ref in missing) > _WORTH_A_PROCESS:
        with WorkerPool(min(len(missing), jobs)) as pool:
            futures: list[tuple[LayerRef, Future[LayerIndex]]] = [
                (ref, pool.submit(make_index, ref, cache, size=ref.size)) for ref in missing
            ]
            for ref, future in futures:
                made[ref.diff_id] = future.result()
                if done:
                    done(ref)
    indexes = []
    for ref in layout.layers:
        indexes.append(made.get(ref.diff_id) or layer_index(ref, cache))
        if done and ref.diff_id not in made:
            done(ref)
    return Image(layout, tuple(indexes))


_WORTH_A_PROCESS = 4 << 20
"""Compressed bytes below which starting processes costs more than it saves."""
