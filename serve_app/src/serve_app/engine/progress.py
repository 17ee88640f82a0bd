"""Lets NIXL's progress thread rest between two looks at the network.

NIXL 1.3's Python package fixes the thread's pause at 0 microseconds (`agent_config.pthrDelay = 0` in `nixl_agent`), so
that it turns a whole core per engine, idle or not. With any pause its backends wait for events instead: measured on two
cores between two processes, UCX took 0.98 of a core with 0 and 0.02 with 100 microseconds, and a READ of 64 MiB 9.8 and
7.2 ms (docs/design.md). There is no setting for it, so the native agent is made once more, before anything uses it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(f"vllm.{__name__}")
"""Below vLLM's, which is the one that is shown in its processes."""


def rest(agent: Any, pause_us: int, parameters: Mapping[str, Mapping[str, str]]) -> bool:
    """Gives a new nixl_agent, of which nothing is registered yet, another native agent. True where that was done.

    pause_us: microseconds of the progress thread's pause; 0 leaves the agent alone. parameters: what each backend is
    created with, by its name. Raises what NIXL raises where a backend can't be created.
    """
    bindings = getattr(sys.modules[type(agent).__module__], "nixlBind", None)
    if pause_us <= 0 or bindings is None:
        return False
    config = bindings.nixlAgentConfig()
    if not hasattr(config, "pthrDelay"):
        logger.warning("this NIXL has no pause for its progress thread: it takes a core of its own")
        return False
    backends = list(agent.backends)
    config.useProgThread = True
    config.useListenThread = False
    config.syncMode = bindings.NIXL_THREAD_SYNC_NONE
    config.pthrDelay = pause_us
    config.captureTelemetry = True  # as vLLM asks for it
    agent.backends.clear()
    agent.agent = bindings.nixlAgent(agent.name, config)
    for name in backends:
        agent.create_backend(name, dict(parameters.get(name, {})))
    logger.info("NIXL's progress thread rests %d microseconds between two looks", pause_us)
    return True
