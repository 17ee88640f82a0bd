"""Nobody but its owner and group may change what is in the image. Subject of a finding: the path."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "writable"
PROVES = "nothing is world-writable but /tmp, /var/tmp and lock folders, and those are sticky"

SHARED = frozenset({"tmp", "var/tmp", "run/lock", "var/lock", "dev/shm", "dev/mqueue"})  # noqa: S108
_STICKY = 0o1000


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text. Symlinks have no mode of their own; devices are another gate's matter."""
    del settings
    for node in image.tree:
        member = node.member
        if member.kind not in ("file", "hardlink", "directory") or not member.mode & 0o002:
            continue
        if member.kind == "directory" and node.path in SHARED and member.mode & _STICKY:
            continue
        sticky = member.kind == "directory" and node.path in SHARED
        yield Finding(
            node.path,
            f"everybody may write to this {member.kind} of {image.owner(node)} (mode {member.mode:o})",
            "any process in the container can replace what others run or read",
            "set its sticky bit (1777)" if sticky else "take the permission away when the layer is made",
        )
