"""What an engine replica tells Serve's autoscaler, under the names that serve_app.scale.policy reads.

Serve calls `record_autoscaling_stats` of a replica that has it
(https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from serve_app.scale.names import KV_USE, QUEUED_TOKENS, WAITING


def queued_tokens(states: Iterable[Any]) -> int:
    """Prompt tokens that are not computed yet. states: vLLM's RequestState, one a request of this engine."""
    return sum(int(state.prompt_len) for state in states if state.is_prefilling)


class Reporting:
    """For an engine replica (ServerMixin)."""

    engine: Any

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Numbers of this replica, now."""
        from prometheus_client import REGISTRY

        from serve_app.observe import derived

        blocks = derived.blocks(REGISTRY)
        use = 0.0 if blocks is None or not blocks[1] else 1 - blocks[0] / blocks[1]
        client = getattr(self.engine, "_engine_client", None)
        processor = getattr(client, "output_processor", None)
        states = list(getattr(processor, "request_states", {}).values())
        return {KV_USE: use, WAITING: derived.waiting(REGISTRY), QUEUED_TOKENS: float(queued_tokens(states))}
