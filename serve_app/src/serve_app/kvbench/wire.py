"""Counters of what carries bytes: network interfaces and RDMA devices, EFA among them. Reading them needs no rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HARDWARE = (
    ("hw_counters/rx_bytes", "hw_counters/tx_bytes", 1),
    ("counters/port_rcv_data", "counters/port_xmit_data", 4),
)
"""Files of a port: received, sent, bytes of one unit. EFA's are defined in Linux's drivers/infiniband/hw/efa/
efa_verbs.c; InfiniBand's (in words of four bytes) in its Documentation/ABI/stable/sysfs-class-infiniband."""


@dataclass(frozen=True)
class Counters:
    """Name of an interface or device → bytes received, bytes sent, since it came up."""

    received: Mapping[str, int]
    sent: Mapping[str, int]

    def since(self, before: Counters) -> Counters:
        """What has moved from `before` to this."""
        return Counters(
            {name: value - before.received.get(name, 0) for name, value in self.received.items()},
            {name: value - before.sent.get(name, 0) for name, value in self.sent.items()},
        )

    def of(self, op: str) -> Mapping[str, int]:
        """What an initiator's operation moves: a READ comes in, a WRITE goes out."""
        return self.received if op == "READ" else self.sent


def read(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> Counters:
    """Now."""
    received, sent = parse((proc / "net/dev").read_text())
    for device in sorted((sys / "class/infiniband").glob("*")):
        name = f"rdma:{device.name}"
        for port in device.glob("ports/*"):
            for rx, tx, unit in HARDWARE:
                received[name] = received.get(name, 0) + unit * _number(port / rx)
                sent[name] = sent.get(name, 0) + unit * _number(port / tx)
    return Counters(received, sent)


def parse(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """/proc/net/dev, proc_pid_net(5): bytes received are the first number of an interface, bytes sent the ninth."""
    received, sent = {}, {}
    for line in text.splitlines():
        name, colon, numbers = line.partition(":")
        fields = numbers.split()
        if colon and len(fields) >= 16:
            received[name.strip()], sent[name.strip()] = int(fields[0]), int(fields[8])
    return received, sent


def _number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
