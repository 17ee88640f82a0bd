"""NIXL's progress thread rests, and the bytes still arrive."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("nixl", reason="needs the image's Python")
numpy: Any = pytest.importorskip("numpy")
pytest.importorskip("vllm", reason="needs the image's Python")

from nixl._api import nixl_agent, nixl_agent_config  # noqa: E402
from serve_app.engine import progress  # noqa: E402

SIZE = 1 << 20


def agent(name: str, pause_us: int) -> tuple[Any, Any]:
    """An agent and its registered memory."""
    made = nixl_agent(name, nixl_agent_config(num_threads=1, capture_telemetry=True))
    assert progress.rest(made, pause_us, {"UCX": {"num_threads": "1"}}) is (pause_us > 0)
    memory = numpy.full(SIZE, 7 if name == "there" else 0, numpy.uint8)
    made.register_memory([(memory.ctypes.data, SIZE, 0, "")], "DRAM")
    return made, memory


def read(pause_us: int) -> float:
    """Reads from one agent into the other; the share of a core that both take while nothing happens."""
    here, mine = agent("here", pause_us)
    there, theirs = agent("there", pause_us)
    name = here.add_remote_agent(there.get_agent_metadata())
    local = here.get_xfer_descs([(mine.ctypes.data, SIZE, 0)], "DRAM")
    remote = here.get_xfer_descs([(theirs.ctypes.data, SIZE, 0)], "DRAM")
    handle = here.initialize_xfer("READ", local, remote, name, b"read")
    here.transfer(handle)
    end = time.monotonic() + 30
    while (state := here.check_xfer_state(handle)) != "DONE":
        assert state == "PROC" and time.monotonic() < end, state
        time.sleep(0.001)
    assert (mine == 7).all()
    here.release_xfer_handle(handle)
    start, spent = time.monotonic(), time.process_time()
    time.sleep(2)
    return (time.process_time() - spent) / (time.monotonic() - start)


def test_what_is_read_is_right_and_an_idle_engine_takes_no_core() -> None:
    assert read(100) < 0.2
    assert read(0) > 0.2, "NIXL's own thread rests now: engine/progress.py can go"
