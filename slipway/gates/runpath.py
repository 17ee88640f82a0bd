"""Libraries are not looked for where others can put some: no relative folder, none that everybody may write to.

ld.so takes an empty or relative RPATH entry as relative to the working directory. Builders leave such entries behind,
like those of their own build folders. Subject of a finding: the path.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image
from slipway.inspect.tree import Tree

NAME = "runpath"
PROVES = "no library is looked for in a relative folder or in one that others may write to"

_OPEN = ("tmp", "var/tmp", "dev/shm", "run/lock")  # noqa: S108
_SAFE = ("/", "$ORIGIN", "${ORIGIN}")


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    for node in image.tree.files():
        facts = node.member.elf
        if facts is None or node.member.kind != "file":
            continue
        for folder in dict.fromkeys(facts.rpath + facts.runpath):
            why = _why(image.tree, folder)
            if why:
                yield Finding(
                    node.path,
                    f"{image.owner(node)} looks for libraries in {folder!r}, {why}",
                    "who can write there runs code in every process that loads this file",
                    "take another build of it, or excuse the path with a reason",
                )


def _why(tree: Tree, folder: str) -> str:
    if not folder.startswith(_SAFE):
        return "relative to the folder that the program is started in"
    path = folder.strip("/")
    if folder[0] == "/" and any(path == other or path.startswith(f"{other}/") for other in _OPEN):
        return "where everybody may write"
    node = tree.get(path) if folder[0] == "/" else None
    return "which everybody may write to" if node and node.member.mode & 0o002 else ""
