"""The scaling rules in a real Serve: 1 → 2 → 1 by what replicas report, and no stream is cut when one goes.

The replicas are no engines: they report what a file says. That engines report the right numbers is test_operate's.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve
from serve_app.run import ray_local
from serve_app.scale.names import KV_USE, WAITING

QUICK = {"min_replicas": 1, "max_replicas": 2, "upscale_delay_s": 0.5, "downscale_delay_s": 1.0,
         "metrics_interval_s": 0.5, "look_back_period_s": 1.0, "target_ongoing_requests": 100}  # fmt: skip
STREAM_S = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    session = ray_local.session_folder()
    ray.init(**ray_local.options(8, session), namespace="serve", log_to_driver=False)
    yield
    serve.shutdown()
    ray.shutdown()


@serve.deployment(
    autoscaling_config={**QUICK, "policy": {"policy_function": "serve_app.scale.policy:Decode",
                                            "policy_kwargs": {"kv_use": 0.5}}},
    graceful_shutdown_timeout_s=60,
    max_ongoing_requests=20,
)  # fmt: skip
class Reports:
    """A decode replica as far as Serve's autoscaler sees."""

    def __init__(self, file: str) -> None:
        self.file = Path(file)

    async def record_autoscaling_stats(self) -> dict[str, float]:
        return {KV_USE: float(self.file.read_text()), WAITING: 0.0}

    async def stream(self) -> AsyncGenerator[str, None]:
        end = time.monotonic() + STREAM_S
        yield serve.get_replica_context().replica_tag
        while time.monotonic() < end:
            await asyncio.sleep(0.5)
            yield "."
        yield "done"


def running() -> int:
    status = serve.status().applications["scaled"].deployments["Reports"]
    return dict(status.replica_states).get("RUNNING", 0)


def wait_for(count: int, seconds: float) -> float:
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if running() == count:
            return time.monotonic() - start
        time.sleep(0.3)
    raise TimeoutError(f"{running()} replicas, not {count}, after {seconds} s: {serve.status().applications['scaled']}")


def test_one_two_one_and_no_stream_is_cut(cluster: None, tmp_path: Path) -> None:
    file = tmp_path / "use"
    file.write_text("0.1")
    handle: Any = serve.run(Reports.bind(str(file)), name="scaled", route_prefix=None).options(stream=True)
    assert running() == 1
    file.write_text("0.9")
    up = wait_for(2, 60)
    results: list[list[str]] = []

    def read() -> None:
        results.append(list(handle.stream.remote()))

    threads = [threading.Thread(target=read) for _ in range(12)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    file.write_text("0.1")
    down = wait_for(1, 60)
    assert any(thread.is_alive() for thread in threads), "the streams had ended before a replica went"
    for thread in threads:
        thread.join()
    assert len(results) == 12 and all(result[-1] == "done" for result in results)
    assert len({result[0] for result in results}) == 2, "both replicas had streams"
    print(json.dumps({"up_s": round(up, 1), "down_s": round(down, 1)}))
