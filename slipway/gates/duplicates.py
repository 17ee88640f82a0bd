"""The same bytes are not shipped twice: libraries above 1 MB by content, NVIDIA's libraries of any size.

Subject of a finding: the path of each copy but the first. Hard links and symlinks share bytes and are none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image
from slipway.inspect.tree import Node

NAME = "duplicates"
PROVES = "no library above 1 MB is shipped twice, no NVIDIA library at all"

LARGE = 1_000_000
"""Bytes."""


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    same: dict[str, list[Node]] = defaultdict(list)
    for node in image.tree.files():
        member = node.member
        if member.kind == "file" and member.elf is not None and (member.size > LARGE or "/nvidia/" in node.path):
            same[member.sha256].append(node)
    for nodes in same.values():
        first, *others = sorted(nodes, key=lambda node: node.path)
        for node in others:
            yield Finding(
                node.path,
                f"{image.owner(node)} ships the same {node.member.size} bytes as {first.path} ({image.owner(first)})",
                "every pull moves them twice",
                "leave one package out, or make one a link",
                # A zip can't hold links: lib.so, lib.so.1 and lib.so.1.2 of one wheel are three files.
                "note" if node.member.owner and node.member.owner == first.member.owner else "error",
            )
