"""What a maker of layers works with; slipway.build.Context is one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Protocol

from slipway.layers.cache import LayerCache
from slipway.progress import Progress
from slipway.store.store import Store


class Workshop(Protocol):
    """store: artifacts; cache: finished layers; sandbox: "strong", or "weak" where the user said so."""

    @property
    def store(self) -> Store: ...
    @property
    def cache(self) -> LayerCache: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def sandbox(self) -> str: ...
    @property
    def cancelled(self) -> threading.Event: ...


@dataclass(frozen=True)
class Bench:
    """A workshop for one layer on its own: benchmarks and tests."""

    store: Store
    cache: LayerCache
    progress: Progress = field(default_factory=Progress)
    sandbox: str = "strong"
    cancelled: threading.Event = field(default_factory=threading.Event)
