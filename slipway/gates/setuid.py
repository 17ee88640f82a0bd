"""Programs that run with another user's rights are those of a list. Subject of a finding: the path."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "setuid"
PROVES = "no setuid or setgid program, none with file capabilities, outside the list"

_CAPABILITIES = "security.capability"


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text. Directories may be setgid: that only hands their group on."""
    del settings
    for node in image.tree.files():
        mode = node.member.mode
        bits = [name for bit, name in ((0o4000, "setuid"), (0o2000, "setgid")) if mode & bit]
        bits += ["file capabilities"] if _CAPABILITIES in node.member.xattrs else []
        if bits:
            yield Finding(
                node.path,
                f"{image.owner(node)} has a program with {' and '.join(bits)} (mode {mode:o})",
                "a fault in it gives its rights to whoever gets into the container",
                "take the bit away when the layer is made, or list the path with a reason in versions.toml",
            )
