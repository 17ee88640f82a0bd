"""Whether prefill is worth asking. Opened by a failure, closed by a probe, so that no request pays for finding out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Circuit:
    """probe: asks prefill whether it is there; true when it is. retry_s: pause between probes, seconds.

    One failure opens: what follows is computed by decode, which is right if slower, and a probe a moment later closes
    again. on_change is told of both.
    """

    probe: Callable[[], Awaitable[bool]]
    retry_s: float
    on_change: Callable[[bool, str], None] = lambda is_open, reason: None
    opened_at: float | None = None
    reason: str = ""
    _task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def open(self) -> bool:
        """True while prefill must not be asked."""
        return self.opened_at is not None

    def trip(self, reason: str) -> None:
        """Opens, and starts to probe in the background. More failures while open change nothing."""
        if self.open:
            return
        self.opened_at = time.monotonic()
        self.reason = reason
        self.on_change(True, reason)
        self._task = asyncio.get_running_loop().create_task(self._until_back())

    async def _until_back(self) -> None:
        while True:
            await asyncio.sleep(self.retry_s)
            try:
                back = await self.probe()
            except Exception:  # noqa: BLE001 - a probe that fails in any way is a no
                back = False
            if back:
                self.opened_at = None
                self.on_change(False, self.reason)
                return
