"""A model that is a folder on this node needs no download step.

Ray LLM 2.60 starts a task on every node of a replica to download the model, also when `model_source` is a local
folder: a new process that imports everything once more (10 s idle, 50 s on a busy two-core machine) and does nothing.
Its callback interface lets that be skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.llm._internal.common.callbacks.base import CallbackBase


class LocalModel(CallbackBase):  # type: ignore[misc]
    """Skips the download step where the model source is a folder that is there."""

    async def on_before_node_init(self) -> None:
        """Called by Ray before the step."""
        source: Any = self.llm_config.model_loading_config.model_source
        if isinstance(source, str) and Path(source).is_dir():
            self.ctx.run_init_node = False
