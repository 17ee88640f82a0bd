"""Files belong to root: others may own what lies below /home, and what Debian's packages say.

Subject of a finding: the path.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "ownership"
PROVES = "all files belong to root, except below /home and where Debian says otherwise"

DEBIAN = {
    "etc/gshadow": (0, 42),
    "etc/gshadow-": (0, 42),
    "etc/shadow": (0, 42),
    "etc/shadow-": (0, 42),
    "usr/bin/chage": (0, 42),
    "usr/bin/expiry": (0, 42),
    "usr/sbin/unix_chkpwd": (0, 42),
    "var/cache/apt/archives/partial": (42, 0),
    "var/lib/apt/lists/partial": (42, 0),
    "var/local": (0, 50),
    "var/log/apt/term.log": (0, 4),
    "var/log/btmp": (0, 43),
    "var/log/lastlog": (0, 43),
    "var/log/wtmp": (0, 43),
    "var/mail": (0, 8),
}
"""uid and gid by Debian's base-files, base-passwd, passwd, libpam-modules and apt: fixed numbers, but apt's user, which
is 42 where the base is made by mmdebstrap and 100 elsewhere."""

_APT_USERS = (42, 100)


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    for node in image.tree:
        member, path = node.member, node.path
        if (member.uid, member.gid) == (0, 0) or path.startswith("home/"):
            continue
        expected = DEBIAN.get(path)
        if expected == (member.uid, member.gid):
            continue
        if expected is not None and expected[0] and member.uid in _APT_USERS and member.gid in (0, 65534):
            continue
        yield Finding(
            path,
            f"{image.owner(node)} gives it to {member.uid}:{member.gid}",
            "the number may be another user's on the node or in a FROM, who could then change it",
            "give it to 0:0 when the layer is made; writable folders belong below /home",
        )
