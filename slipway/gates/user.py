"""Containers start as a numbered user that is not root. Subject of a finding: `config.User`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "user"
PROVES = "containers start as a numbered user other than root"


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    user = str(image.layout.runtime.get("User") or "")
    uid = user.partition(":")[0]
    if not user or uid in ("0", "root"):
        yield Finding(
            "config.User",
            f"containers start as root (User is {user!r})",
            "who breaks out of the program is root on the node's kernel; restricted clusters refuse the pod",
            'set the image\'s user, e.g. "1000:0"',
        )
    elif not re.fullmatch(r"\d+(:\d+)?", user):
        yield Finding(
            "config.User",
            f"the user is a name: {user!r}",
            "Kubernetes' runAsNonRoot can't tell that a name is not root, and refuses to start the pod",
            'write its number, e.g. "1000:0"',
        )
