"""docker0, the bridge that an engine leaves behind when it stops. Removed by ioctl: a small system has no `ip`."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from pathlib import Path

NAME = "docker0"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCBRDELBR = 0x8913, 0x8914, 0x89A1
_IFF_UP = 0x1


def exists(name: str = NAME) -> bool:
    """Whether this machine has the bridge."""
    return Path("/sys/class/net", name).exists()


def remove(name: str = NAME) -> None:
    """Take the bridge down and away; nothing happens when it is not there or may not be removed."""
    if not exists(name):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", name.encode(), 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name.encode(), flags & ~_IFF_UP))
        fcntl.ioctl(control, _SIOCBRDELBR, name.encode().ljust(16, b"\0"))
