"""What of the machine's network an engine could change: packet filter rules, forwarding. Read only.

Our own engine changes none of it (slipway.engine.daemon says how); the container tests compare two snapshots.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.host import process

FORWARDING = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")
SAVERS = ("iptables-save", "ip6tables-save", "iptables-legacy-save")
_COUNTERS = re.compile(r"\s*\[\d+:\d+\]\s*")


@dataclass(frozen=True)
class Snapshot:
    """Rules as `iptables-save` prints them, prefixed by program and table; kernel settings."""

    rules: tuple[str, ...]
    forwarding: tuple[str, ...]

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Snapshot:
        fields = json.loads(text)
        return Snapshot(tuple(fields["rules"]), tuple(fields["forwarding"]))


def take(proc: Path = Path("/proc/sys")) -> Snapshot:
    """The state now. Where the machine has no iptables there are no rules to see."""
    rules: list[str] = []
    for saver in SAVERS:
        if process.which(saver) is not None:
            rules += [f"{saver} {rule}" for rule in read_rules(process.run([saver], check=False).out)]
    settings = tuple(f"{name}={(proc / name).read_text().strip()}" for name in FORWARDING if (proc / name).exists())
    return Snapshot(tuple(rules), settings)


def read_rules(saved: str) -> list[str]:
    """Lines of `iptables-save` as `TABLE RULE`, without comments and counters.

    A built-in chain that accepts and has no rule is the same as one that is not there: looking at a table makes it.
    """
    rules: list[str] = []
    table = ""
    for line in saved.splitlines():
        text = _COUNTERS.sub(" ", line).strip()
        if text.startswith("*"):
            table = text[1:]
        elif text.startswith(":"):
            chain, policy = text[1:].split()[:2]
            if policy != "ACCEPT":
                rules.append(f"{table} :{chain} {policy}")
        elif text.startswith("-"):
            rules.append(f"{table} {text}")
    return rules
