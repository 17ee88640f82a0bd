"""The prefill side: computes prompts. Its signs of life (ServerMixin.beating) are decode's clock for leases, too."""

from __future__ import annotations

import os
from typing import Any

from ray.llm._internal.serve.serving_patterns.prefill_decode.pd_server import DPPDPrefillServer, PDPrefillServer

from serve_app.engine.server import ServerMixin


class PrefillMixin(ServerMixin):
    """What is added to Ray's prefill server."""

    role = "prefill"

    async def alive(self) -> dict[str, Any]:
        """For a probe: the engine works. Raises what the engine's health check raises."""
        await self.check_health()  # type: ignore[attr-defined]
        return {"pid": os.getpid()}


class PrefillServer(PrefillMixin, PDPrefillServer):  # type: ignore[misc]
    """Prefill with one engine a replica."""


class DPPrefillServer(PrefillMixin, DPPDPrefillServer):  # type: ignore[misc]
    """Prefill with a data-parallel gang of engines."""
