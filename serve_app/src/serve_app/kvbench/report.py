"""What kvbench found, as a table and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from serve_app.kvbench.plan import size_text
from serve_app.kvbench.raw import Raw


@dataclass(frozen=True)
class Row:
    """One case. Seconds are of one whole transfer. transport: what the library says carried it; seen: the interfaces
    whose counters moved by its bytes; hmem: whether libfabric can reach GPU memory (LIBFABRIC only).
    """

    backend: str
    op: str
    memory: str
    size: int
    descriptors: int
    median_s: float
    best_s: float
    transfers: int
    verified: bool
    transport: str
    seen: tuple[str, ...]
    moved: Mapping[str, int] = field(default_factory=dict)
    hmem: bool | None = None
    contradiction: str = ""

    @property
    def rate(self) -> float:
        """Bytes a second of the median transfer."""
        return self.size / self.median_s


@dataclass(frozen=True)
class Report:
    """rows, the raw link's figures, and why what is missing is missing."""

    rows: tuple[Row, ...]
    links: tuple[Raw, ...]
    failed: Mapping[str, str]

    @property
    def right(self) -> bool:
        """Every backend ran, everything that arrived was what was sent, and the counters agree with the libraries."""
        tools = ("fi_rma_bw", "iperf3")
        whole = all(name.startswith(tools) for name in self.failed)
        return bool(self.rows) and whole and all(row.verified and not row.contradiction for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Rates in GB/s (10**9 bytes), times in seconds."""
        rows = [{**asdict(row), "gbps": row.rate / 1e9} for row in self.rows]
        links = [{**asdict(link), "gbps": link.rate / 1e9} for link in self.links]
        return {"format": 1, "rows": rows, "raw": links, "failed": dict(self.failed), "right": self.right}

    def best_raw(self, op: str, size: int) -> Raw | None:
        """The raw link's figure that a row is compared with."""
        fitting = [link for link in self.links if link.op == op and link.size in (0, size)]
        return max(fitting, key=lambda link: link.rate, default=None)

    def table(self) -> str:
        """For a terminal."""
        head = ("backend", "op", "memory", "size", "pieces", "GB/s", "best", "contents", "carried by")
        lines = [head, *(self._cells(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        text = [
            "  ".join(
                cell.rjust(width) if column in (3, 4, 5, 6) else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        for link in self.links:
            size = size_text(link.size) if link.size else "a stream"
            text.append(f"raw link, {link.tool} {link.op}, {size}: {link.rate / 1e9:.2f} GB/s ({link.command})")
        text += [f"not measured: {name}: {why}" for name, why in self.failed.items()]
        return "\n".join(text)

    @staticmethod
    def _cells(row: Row) -> tuple[str, ...]:
        seen = ", ".join(row.seen) or "no network interface"
        carried = f"{row.transport} (seen: {seen})" + (f" CONTRADICTION: {row.contradiction}" * bool(row.contradiction))
        return (
            row.backend, row.op, row.memory, size_text(row.size), str(row.descriptors), f"{row.rate / 1e9:.2f}",
            f"{row.size / row.best_s / 1e9:.2f}", "right" if row.verified else "WRONG", carried,
        )  # fmt: skip
