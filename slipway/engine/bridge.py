"""The network bridge of an engine of our own, made and removed by ioctl: a small system has no `ip`.

It has a name and addresses of its own, so that several engines can run side by side and stop in any order; docker0,
which an engine would make otherwise, stays behind when it stops. Formats: netdevice(7), linux/if_bridge.h.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_SIOCBRADDBR, _SIOCBRDELBR = 0x89A0, 0x89A1
_IFF_UP = 0x1

CANDIDATES = tuple(ipaddress.IPv4Network("10.89.0.0/16").subnets(new_prefix=24))
"""Where an engine's containers may live; the first that no route of this machine leads to is taken."""


def create(name: str, routes: str | None = None) -> ipaddress.IPv4Network:
    """Make the bridge and give it the first address of a network that is free here. Needs root; raises OSError."""
    text = Path("/proc/net/route").read_text() if routes is None else routes
    network = free_network(read_routes(text))
    gateway = next(network.hosts())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCBRADDBR, name.encode().ljust(16, b"\0"))
        try:
            fcntl.ioctl(control, _SIOCSIFADDR, _address_request(name, gateway))
            fcntl.ioctl(control, _SIOCSIFNETMASK, _address_request(name, network.netmask))
            _set_up(control, name, True)
        except OSError:
            remove(name)
            raise
    return network


def remove(name: str) -> None:
    """Take the bridge down and away; nothing happens when it is not there or may not be removed."""
    if not Path("/sys/class/net", name).exists():
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _set_up(control, name, False)
        fcntl.ioctl(control, _SIOCBRDELBR, name.encode().ljust(16, b"\0"))


def _address_request(name: str, address: ipaddress.IPv4Address) -> bytes:
    return struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, address.packed)


def _set_up(control: socket.socket, name: str, up: bool) -> None:
    request = struct.pack("16sH14x", name.encode(), 0)
    flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
    flags = flags | _IFF_UP if up else flags & ~_IFF_UP
    fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", name.encode(), flags))


def read_routes(text: str) -> list[ipaddress.IPv4Network]:
    """The networks that /proc/net/route leads to, without the default route; its numbers are in host byte order."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and int(fields[7], 16):
            destination, mask = (struct.pack("=I", int(fields[column], 16)) for column in (1, 7))
            prefix = int.from_bytes(mask, "big").bit_count()
            found.append(ipaddress.IPv4Network((destination, prefix), strict=False))
    return found


def free_network(taken: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """The first candidate that overlaps nothing taken; the first of all where every one does."""
    routes = list(taken)
    free = (network for network in CANDIDATES if not any(network.overlaps(route) for route in routes))
    return next(free, CANDIDATES[0])
