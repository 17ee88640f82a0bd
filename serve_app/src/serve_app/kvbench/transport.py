"""Which transport was really used: what the libraries say, and what the counters say about that. Pure.

A transfer that is done and right proves nothing about its way: UCX takes tcp where it finds nothing better and says
nothing (two processes on one H200: 0.45 GB/s, where CUDA IPC does 1,097), and libfabric has providers to fall back to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

ENOUGH = 0.9
"""Share of a transfer's bytes that an interface must have seen to be the one that carried it."""

UNKNOWN = "unknown"
_TABLE = re.compile(r"\|\s*\S+ (self|intra-node|inter-node) cfg#\d+\s*\|\s*remote memory (read|write) by ")
_ROW = re.compile(r"\|\s*\d+(?:\.\.(?:\d+|inf))?\s*\|[^|]*\|\s*(\S[^|]*?)\s*\|\s*$")
_RAILS = re.compile(r"Created (\d+) rails using provider=([\w-]+)")
_FABRIC = re.compile(r"fabric_attr->name (\S+)")
NO_HMEM = "Using provider without FI_HMEM"


def of_ucx(log: str, op: str) -> str:
    """From UCX's protocol tables (UCX_PROTO_INFO=y): how the biggest messages go to another process, `tcp/eth0`."""
    found, wanted = UNKNOWN, False
    for line in log.splitlines():
        if "cfg#" in line:
            table = _TABLE.search(line)
            wanted = table is not None and table[1] != "self" and table[2].upper() == op
        elif wanted and (row := _ROW.search(line)):
            found = row[1]
    return found


def of_libfabric(log: str) -> str:
    """From NIXL's log: provider, number of rails and the network, `libfabric tcp, 1 rail, 172.17.0.0/16`."""
    rails = _RAILS.search(log)
    if not rails:
        return UNKNOWN
    plural = "" if rails[1] == "1" else "s"
    fabric = _FABRIC.search(log)
    where = f", {fabric[1]}" if fabric and rails[2] != "efa" else ""
    return f"libfabric {rails[2]}, {rails[1]} rail{plural}{where}"


def said(backend: str, log: str, op: str) -> str:
    """What the backend's own log says."""
    if backend == "UCX":
        return of_ucx(log, op)
    return of_libfabric(log) if backend == "LIBFABRIC" else UNKNOWN


def seen(moved: Mapping[str, int], payload: int) -> tuple[str, ...]:
    """Interfaces and devices that carried the transfer; none: memory, or a link between GPUs."""
    return tuple(sorted(name for name, count in moved.items() if payload and count >= ENOUGH * payload))


def contradiction(said: str, seen: Iterable[str]) -> str:
    """Why the two can't both be true; "" where they can."""
    carried = set(seen)
    network = "tcp" in said or "sockets" in said
    if network and not carried:
        return f"{said} is said to have carried it, and no network counter moved"
    if "efa" in said and not any(name.startswith("rdma:") for name in carried):
        return f"{said} is said to have carried it, and no RDMA counter moved"
    named = re.search(r"tcp/([\w.-]+)", said)
    if named and named[1] not in carried:
        return f"{said} is said to have carried it, and the bytes moved over {', '.join(sorted(carried)) or 'nothing'}"
    if carried and any(word in said for word in ("cma", "sysv", "posix", "xpmem", "cuda_ipc")):
        return f"{said} is said to have carried it, and the bytes moved over {', '.join(sorted(carried))}"
    return ""
