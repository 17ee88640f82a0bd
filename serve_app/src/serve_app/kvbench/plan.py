"""What to measure. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from serve_app.errors import UsageError

OPS = ("READ", "WRITE")
MEMORY = ("DRAM", "VRAM")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
LEAST_DESCRIPTOR = 64
"""Bytes; less is no KV block of any model, and the descriptor lists would take longer than the transfer."""

MOST = 1 << 40


@dataclass(frozen=True)
class Case:
    """One measurement: `size` bytes in `descriptors` pieces of equal length."""

    op: str
    size: int
    descriptors: int

    @property
    def piece(self) -> int:
        """Bytes of one descriptor."""
        return self.size // self.descriptors


@dataclass(frozen=True)
class Plan:
    """One backend's measurements. seconds: spent on each case at least, after one warm-up transfer.

    ucx_tls: UCX_TLS for both sides; "" leaves the choice to UCX and to each side's environment.
    """

    backend: str
    memory: str = "DRAM"
    ops: tuple[str, ...] = ("READ",)
    sizes: tuple[int, ...] = (64 << 10, 1 << 20, 16 << 20, 64 << 20)
    descriptors: tuple[int, ...] = (1, 64, 4096)
    seconds: float = 0.5
    least: int = 3
    ucx_tls: str = ""
    devices: tuple[int, int] = (0, 0)

    def cases(self) -> Iterator[Case]:
        """Every combination whose descriptors are big enough and divide the size."""
        for op in self.ops:
            for size in self.sizes:
                for count in self.descriptors:
                    if size % count == 0 and size // count >= LEAST_DESCRIPTOR:
                        yield Case(op, size, count)

    def as_json(self) -> dict[str, Any]:
        """For the other side."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Plan:
        """From as_json(). Raises UsageError on anything that is no plan."""
        try:
            tuples = {name: tuple(data[name]) for name in ("ops", "sizes", "descriptors", "devices")}
            plan = cls(**{**data, **tuples})
        except (KeyError, TypeError) as error:
            raise UsageError(f"not a plan of kvbench: {error}") from error
        if (
            not re.fullmatch(r"[A-Z0-9_]{1,32}", plan.backend)
            or plan.memory not in MEMORY
            or not re.fullmatch(r"[a-z0-9_,^]*", plan.ucx_tls)
            or not plan.sizes
            or not all(isinstance(size, int) and 0 < size <= MOST for size in plan.sizes)
        ):
            raise UsageError("not a plan of kvbench")
        return plan


def size(text: str) -> int:
    """Bytes of `64K`, `1M`, `256MiB`, `1000`. Raises ValueError."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or not int(match[1]):
        raise ValueError(f"{text!r} is no size: 64K, 1M, 1G or bytes")
    found = int(match[1]) * UNITS[match[2].upper()]
    if found > MOST:
        raise ValueError(f"{text!r} is more than 1024G")
    return found


def size_text(count: int) -> str:
    """The shortest exact form: 65536 → 64K."""
    for unit in ("G", "M", "K"):
        if count % UNITS[unit] == 0:
            return f"{count // UNITS[unit]}{unit}"
    return str(count)
