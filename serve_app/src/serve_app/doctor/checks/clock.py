"""The clock: certificates, tokens and logs of two nodes depend on it. KV's lease does not, it is proven without."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/set-time.html"
OLDEST = 1_767_225_600
"""2026-01-01, before the first release of this program: no clock can be right that says less."""

SLOW_SOURCES = ("xen", "hpet", "acpi_pm")


def check(node: Node) -> Iterator[Finding]:
    """Time, its keeper, and what it costs to read."""
    source = node.text("sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
    if node.now() < OLDEST:
        yield Finding(
            "clock",
            "error",
            "the clock is before 2026: TLS certificates and registry tokens are not valid yet",
            "set the host's clock, and keep it with chrony",
            WHY,
        )
    elif source in SLOW_SOURCES:
        yield Finding(
            "clock",
            "warning",
            f"the clock source {source} takes a system call: engines read it all the time",
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource on the host",
            "https://repost.aws/knowledge-center/manage-ec2-linux-clock-source",
        )
    elif not node.synchronised():
        yield Finding(
            "clock", "note", "the kernel says that nothing keeps its clock; logs of two nodes may not fit together"
        )
    else:
        yield Finding("clock", "ok", "kept, and cheap to read")
