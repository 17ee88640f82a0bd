"""Layers add: none deletes or replaces what a lower one holds, and directories are the same in all of them.

What a later layer hides is still downloaded, and engines differ in how they unpack a file over a directory or through
a symlink. Subject of a finding: the path.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image
from slipway.inspect.tree import Replaced

NAME = "layering"
PROVES = "no layer deletes or replaces what a lower one holds"

FIT = "base-fit"
"""The layer that makes the image's user known on somebody else's base: it writes the user tables again."""

LAST_WORD = frozenset({"etc/ld.so.cache"})
"""Made over the finished tree, by design."""


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    names = [ref.name for ref in image.layout.layers]
    given = image.given
    for whiteout in image.tree.whiteouts:
        if whiteout.layer in given:
            continue
        yield Finding(
            whiteout.path,
            f"layer {names[whiteout.layer]} deletes it" + (" with everything below" if whiteout.opaque else ""),
            "a lower layer still carries the bytes, every pull moves them, and anybody can read them",
            "don't put it into the lower layer",
        )
    for replaced in image.tree.replaced:
        lower = names[replaced.lower.layer] if replaced.lower.layer >= 0 else "below"
        finding = _replaced(replaced, lower, names[replaced.upper.layer])
        by_design = replaced.path in LAST_WORD or names[replaced.upper.layer] == FIT or replaced.upper.layer in given
        if finding is not None and not by_design:
            yield finding
    for number, index in enumerate(image.indexes):
        for member in index.members:
            node = image.tree.nodes.get(member.path)
            if member.kind != "directory" and "/.wh." not in f"/{member.path}" and node is None:
                real = image.tree.resolve(member.path)
                if real is not None and real != member.path:
                    yield Finding(
                        member.path,
                        f"layer {names[number]} writes it through a symlink to {real}",
                        "engines unpack that differently, and the path is not the one that lists and packages name",
                        f"write {real}",
                    )


def _replaced(replaced: Replaced, lower: str, upper: str) -> Finding | None:
    old, new = replaced.lower.member, replaced.upper.member
    if old.kind == new.kind == "directory":
        if (old.mode, old.uid, old.gid) == (new.mode, new.uid, new.gid):
            return None
        return Finding(
            replaced.path,
            f"the directory is {old.mode:o} {old.uid}:{old.gid} in layer {lower}, "
            f"{new.mode:o} {new.uid}:{new.gid} in {upper}",
            "the order of layers decides who may write there",
            "write equal modes and owners in both",
        )
    if old.kind != new.kind:
        return Finding(
            replaced.path,
            f"it is a {old.kind} in layer {lower} and a {new.kind} in layer {upper}",
            "what lies below it is hidden or fails to unpack",
            "rename one, or leave one package out",
        )
    same = (old.sha256, old.target, old.mode, old.uid, old.gid) == (
        new.sha256,
        new.target,
        new.mode,
        new.uid,
        new.gid,
    )
    return Finding(
        replaced.path,
        f"layers {lower} and {upper} both hold it" + (", the same" if same else ", and differ"),
        "the bytes are moved twice" if same else "the later one wins, and the earlier package does not work as tested",
        "leave it out of one of them",
        "warning" if same else "error",
    )
