"""One NIXL agent with one backend. Nothing else of serve_app imports NIXL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from serve_app.engine import progress
from serve_app.errors import ServeAppError
from serve_app.kvbench.memory import Memory
from serve_app.pd.settings import Settings

SPIN_S = 100e-6
PAUSE_S = 50e-6
"""A transfer is asked for its state without a pause at first, then every PAUSE_S: a thread that never rests takes a
core from NIXL's own threads. Measured with two containers on two cores, LIBFABRIC over tcp, 64 MiB: 0.44 GB/s with a
thread that never rests, 1.5 GB/s with pauses."""

TIMEOUT_S = 300.0


class TransferFailed(ServeAppError):
    """NIXL said that a transfer failed, or said nothing for TIMEOUT_S."""


class Agent:
    """Raises what NIXL raises when the backend can't be made here."""

    def __init__(self, name: str, backend: str, memory: Memory) -> None:
        from nixl._api import nixl_agent, nixl_agent_config

        self.backend, self.memory = backend, memory
        self._agent: Any = nixl_agent(name, nixl_agent_config(backends=[]))
        progress.rest(self._agent, Settings().progress_us, {})  # as the service does
        self._agent.create_backend(backend, {})
        region = [(memory.address, memory.size, memory.device, "")]
        self._agent.register_memory(region, memory.kind, backends=[backend])

    def metadata(self) -> bytes:
        """What the other side needs to reach this one."""
        found: bytes = self._agent.get_agent_metadata()
        return found

    def meet(self, metadata: bytes) -> str:
        """Make the other side known; its name."""
        name = self._agent.add_remote_agent(metadata)
        return name.decode() if isinstance(name, bytes) else str(name)

    def descriptors(self, address: int, offsets: Sequence[int], piece: int, device: int) -> Any:
        """NIXL's list of these pieces."""
        return self._agent.get_xfer_descs([(address + offset, piece, device) for offset in offsets], self.memory.kind)

    def transfer(self, op: str, local: Any, remote: Any, peer: str) -> float:
        """Do it; seconds from posting to done. Raises TransferFailed."""
        handle = self._agent.initialize_xfer(op, local, remote, peer, b"", backends=[self.backend])
        try:
            start = time.perf_counter()
            state = self._agent.transfer(handle)
            while state != "DONE":
                passed = time.perf_counter() - start
                if state == "ERR" or passed > TIMEOUT_S:
                    raise TransferFailed(f"{self.backend} {op}: NIXL says {state} after {passed:.1f} s")
                if passed > SPIN_S:
                    time.sleep(PAUSE_S)
                state = self._agent.check_xfer_state(handle)
            return time.perf_counter() - start
        finally:
            self._agent.release_xfer_handle(handle)
