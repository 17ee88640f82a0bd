"""Whether a report of `serve_app kvbench` proves what it should about NIXL between two nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def complaints(
    report: Mapping[str, Any], backend: str, fabric: str, ops: Sequence[str], descriptors: Iterable[int], between: bool
) -> list[str]:
    """What keeps the report from being a proof for `backend`. fabric: "tcp" or "efa". between: the processes were on
    two nodes, so that a network must have carried everything.
    """
    if backend in report.get("failed", {}):
        return [f"{backend} failed: {report['failed'][backend]}"]
    rows = [row for row in report.get("rows", []) if row["backend"] == backend]
    wrong = []
    for op in ops:
        measured = {row["descriptors"] for row in rows if row["op"] == op}
        if missing := set(descriptors) - measured:
            wrong.append(f"{op} was not measured with {', '.join(map(str, sorted(missing)))} descriptors")
    for row in rows:
        case = f"{backend} {row['op']} {row['size']} bytes in {row['descriptors']}"
        if not row["verified"]:
            wrong.append(f"{case}: what arrived is not what was sent")
        if row["contradiction"]:
            wrong.append(f"{case}: {row['contradiction']}")
        if between and not set(row["seen"]) - {"lo"}:
            wrong.append(
                f"{case}: no network counter moved by its bytes: it stayed within one node ({row['transport']})"
            )
        if fabric not in row["transport"]:
            wrong.append(f"{case}: {fabric} was asked for, and {row['transport']} was used")
        if fabric == "efa" and not any(name.startswith("rdma:") for name in row["seen"]):
            wrong.append(f"{case}: EFA's counters did not move")
    return wrong
