"""The file tree that an image's layers make together, and the symlinks inside it.

Rules: https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md (whiteouts, replacing). A member whose parent
is a symlink lands where the link points, as an engine unpacks it: on a merged-usr system lib/x is usr/lib/x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slipway.inspect.index import LayerIndex, Member

_MAX_LINKS = 40
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"


class Node(NamedTuple):
    """A path of the finished image. layer is the number of the layer it comes from, -1 for a parent nobody wrote."""

    path: str
    member: Member
    layer: int


class Replaced(NamedTuple):
    """A path that a later layer holds again."""

    path: str
    lower: Node
    upper: Node


class Whiteout(NamedTuple):
    """A member that deletes: path is what it deletes (for an opaque one, everything below)."""

    path: str
    layer: int
    opaque: bool


class Tree:
    """Paths are real ones: no part of them is a symlink, except possibly the last."""

    def __init__(self, layers: Sequence[LayerIndex]) -> None:
        self.nodes: dict[str, Node] = {"": Node("", Member("", "directory", 0o755), -1)}
        self.replaced: list[Replaced] = []
        self.whiteouts: list[Whiteout] = []
        for number, layer in enumerate(layers):
            self._whiteouts(number, layer)
            for member in layer.members:
                if not member.path.rpartition("/")[2].startswith(_WHITEOUT):
                    self._add(number, member)
        self._files = [node for node in self.nodes.values() if node.member.kind in ("file", "hardlink")]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def get(self, path: str) -> Node | None:
        """The node at `path`, with symlinks on the way and at the end followed. None for what isn't there."""
        real = self.resolve(path)
        return None if real is None else self.nodes.get(real)

    def resolve(self, path: str) -> str | None:
        """The real path of `path` ("/usr/../lib/x" or "lib/x"), None for dangling links, loops and missing parts."""
        direct = self.nodes.get(path)
        if direct is not None and direct.member.kind != "symlink":
            return path
        return self._walk(path, final=True, create=False)

    def children(self, folder: str) -> list[str]:
        """Paths directly below a real directory, sorted. Slow: looks at all paths."""
        prefix = f"{folder}/" if folder else ""
        return sorted(p for p in self.nodes if p.startswith(prefix) and p != folder and "/" not in p[len(prefix) :])

    def files(self) -> Sequence[Node]:
        """All files: hard links too, each under its own path."""
        return self._files

    def _walk(self, path: str, *, final: bool, create: bool) -> str | None:
        """Follow `path` part by part from the root; ".." stops at the root, as in a chroot."""
        parts = path.split("/")[::-1]
        real: list[str] = []
        links = 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del real[-1:]
                continue
            real.append(part)
            here = "/".join(real)
            node = self.nodes.get(here)
            if node is None:
                if not create:
                    return None
                continue
            if node.member.kind == "symlink" and (parts or final):
                links += 1
                if links > _MAX_LINKS:
                    return None
                target = node.member.target
                real = [] if target.startswith("/") else real[:-1]
                parts.extend(target.split("/")[::-1])
            elif parts and node.member.kind != "directory" and not create:
                return None
        return "/".join(real)

    def _add(self, number: int, member: Member) -> None:
        path = self._real(number, member.path)
        old = self.nodes.get(path)
        node = Node(path, member, number)
        if old is not None:
            if old.layer not in (-1, number) or (old.layer == -1 and member.kind != "directory"):
                self.replaced.append(Replaced(path, old, node))
            if old.member.kind == "directory" and member.kind != "directory":
                self._remove_below(path)
        self.nodes[path] = node

    def _real(self, number: int, path: str) -> str:
        """Where a member lands: its parents resolved, made where nobody wrote them; its last part as it is.

        A parent that is a file, or a symlink in a circle, becomes a directory, as it does in an overlay.
        """
        parent, _, name = path.rpartition("/")
        known = self.nodes.get(parent)
        if known is not None and known.member.kind == "directory":
            return path
        real = self._walk(parent, final=True, create=True)
        if real is None:
            real = parent
        folder = real
        while folder:
            old = self.nodes.get(folder)
            if old is None or old.member.kind != "directory":
                self.nodes[folder] = Node(folder, Member(folder, "directory", 0o755), -1)
                if old is not None:
                    self.replaced.append(Replaced(folder, old, Node(folder, self.nodes[folder].member, number)))
            folder = folder.rpartition("/")[0]
        return f"{real}/{name}" if real else name

    def _whiteouts(self, number: int, layer: LayerIndex) -> None:
        """Deletions hold for the layers below only, so they come before the layer's own members."""
        for member in layer.members:
            parent, _, name = member.path.rpartition("/")
            if not name.startswith(_WHITEOUT):
                continue
            folder = self._walk(parent, final=True, create=True)
            if folder is None:
                continue
            if name == _OPAQUE:
                self.whiteouts.append(Whiteout(folder, number, True))
                self._remove_below(folder)
            else:
                path = f"{folder}/{name[len(_WHITEOUT) :]}".lstrip("/")
                self.whiteouts.append(Whiteout(path, number, False))
                self.nodes.pop(path, None)
                self._remove_below(path)

    def _remove_below(self, folder: str) -> None:
        prefix = f"{folder}/" if folder else ""
        for path in [path for path in self.nodes if path.startswith(prefix) and path not in ("", folder)]:
            del self.nodes[path]
