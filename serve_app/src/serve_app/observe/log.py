"""One JSON line a request on standard output, and the counters that go with it."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from serve_app.access.record import Record
from serve_app.observe import metrics

QUIET = ("health", "ready", "metrics")
"""Asked every few seconds by machines: counted, and told only when they fail."""


def finished(record: Record, write: bool) -> None:
    """Counts a request that has ended, and writes its line."""
    count(record)
    if write and (record.route not in QUIET or record.status >= 500):
        line(record.as_json())


def line(facts: dict[str, Any]) -> None:
    """One line, in one write, so that lines of several threads don't mix."""
    moment = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
    try:
        sys.stdout.write(json.dumps({"event": "request", "time": stamp, **facts}) + "\n")
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        pass  # nobody reads any more; serving goes on


def count(record: Record) -> None:
    """Into the metrics."""
    metrics.HTTP_REQUESTS.labels(record.route, str(record.status)).inc()
    if record.first_at is not None:
        metrics.FIRST_ITEM.labels(record.route).observe(record.first_at - record.started)
    if record.route not in QUIET:
        metrics.TOTAL.labels(record.route).observe(time.monotonic() - record.started)
    if record.key is not None:
        metrics.KEY_REQUESTS.labels(record.key, str(record.status)).inc()
        for kind in ("prompt", "completion"):
            metrics.KEY_TOKENS.labels(record.key, kind).inc(record.used(f"{kind}_tokens"))
