"""A real token through every prefill replica before /ready is true.

The first transfer between two engines needs a handshake of seconds, and shows whether they can talk at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

PAUSE_S = 1.0


@dataclass
class Warmup:
    """replicas: ids of prefill's replicas, None while unknown. one: a token through one of them; its engine's id.

    Serve picks the replica, so this asks until as many engines have answered as there are replicas. A changed set
    begins anew: replicas come and go.
    """

    replicas: Callable[[], frozenset[Any] | None]
    one: Callable[[], Awaitable[str]]
    warm: frozenset[Any] | None = None
    engines: set[str] = field(default_factory=set)

    @property
    def done(self) -> bool:
        """True when every replica that there is now has given a token."""
        now = self.replicas()
        return bool(now) and now == self.warm

    async def run(self) -> None:
        """For ever."""
        while True:
            now = self.replicas()
            if now and now != self.warm:
                await self._try(now)
            if self.done or not now:
                await asyncio.sleep(PAUSE_S)

    async def _try(self, now: frozenset[Any]) -> None:
        try:
            self.engines.add(await self.one())
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - prefill is not there yet, or not any more: ask again
            await asyncio.sleep(PAUSE_S)
            return
        # Engines of replicas that are gone may be counted: then the handshake is made by the first request instead.
        if len(self.engines) >= len(now):
            self.warm, self.engines = now, set()
