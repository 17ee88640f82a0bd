"""The memory that is moved: of the machine, or of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serve_app.errors import MissingError
from serve_app.kvbench import pattern


class Memory:
    """`size` bytes of DRAM, or of GPU number `device`. Contents are made and digested in DRAM."""

    def __init__(self, kind: str, size: int, device: int = 0) -> None:
        import numpy as np

        self.kind, self.size, self.device = kind, size, device if kind == "VRAM" else 0
        self._array: Any = np.zeros(size, dtype=np.uint8)
        self._tensor: Any = None
        if kind == "VRAM":
            import torch

            if not torch.cuda.is_available() or torch.cuda.device_count() <= device:
                raise MissingError(f"there is no GPU number {device} here")
            self._tensor = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
            torch.cuda.synchronize(device)

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self._array.ctypes.data if self._tensor is None else self._tensor.data_ptr())

    def fill(self, count: int, seed: int | None) -> None:
        """Write the pattern of `seed`, or zeros, over the first `count` bytes."""
        if seed is None:
            self._array[:count] = 0
        else:
            pattern.fill(self._array[:count], seed)
        if self._tensor is not None:
            import torch

            self._tensor[:count].copy_(torch.from_numpy(self._array[:count]))
            torch.cuda.synchronize(self.device)

    def digest(self, offsets: Sequence[int], piece: int) -> str:
        """sha256 of these pieces as they are now."""
        if self._tensor is not None:
            import torch

            torch.cuda.synchronize(self.device)
            end = max(offsets) + piece
            self._array[:end] = self._tensor[:end].cpu().numpy()
        return pattern.digest(self._array, offsets, piece)
