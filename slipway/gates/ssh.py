"""No ssh server, no host keys, no user's keys. A key in an image is shared by everybody who pulls it.

Subject of a finding: the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "ssh"
PROVES = "no ssh server and no ssh keys"

_FOUND: tuple[tuple[str, str], ...] = (
    (r"(usr/)?(local/)?s?bin/(sshd|dropbear)", "an ssh server"),
    (r"etc/(ssh/ssh_host_.*|dropbear/.+)", "an ssh server's host key"),
    (r"(.*/)?\.ssh/.+", "somebody's ssh configuration or key"),
    (r"(.*/)?id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\.pub)?", "an ssh key"),
)
_ANY = re.compile("|".join(pattern for pattern, _ in _FOUND))


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    for node in image.tree.files():
        if _ANY.fullmatch(node.path):
            what = next(what for pattern, what in _FOUND if re.fullmatch(pattern, node.path))
            yield Finding(
                node.path,
                f"{what}, from {image.owner(node)}",
                "all who pull the image share it; DLC's images once shared one root key",
                "leave the package out; give keys to containers at run time",
            )
