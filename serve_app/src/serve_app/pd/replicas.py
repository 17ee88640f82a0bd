"""How many replicas a deployment handle knows of."""

from __future__ import annotations

from typing import Any


def count_replicas(handle: Any) -> int | None:
    """0 when Serve has none: a call would wait without limit. None when the handle has not heard from Serve yet."""
    found = replica_ids(handle)
    return None if found is None else len(found)


def replica_ids(handle: Any) -> frozenset[Any] | None:
    """Serve's ids of the replicas; None when the handle has not heard from Serve yet.

    Ray 2.60's handles have no public word on it; this reads the router's own list (a test pins the attributes).
    """
    router = getattr(handle, "_router", None)
    if router is None or not router.running_replicas_populated():
        return None
    inner = getattr(getattr(router, "_asyncio_router", router), "request_router", None)
    return None if inner is None else frozenset(inner.curr_replicas)
