"""Which releases there are with which fabric, as a table: what `build.py lock` prints at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway import lock as locks
from slipway.lock import file
from slipway.lock.model import Lock
from slipway.pins import Pins

SHOWN = ("ray", "vllm", "torch", "nixl")


@dataclass(frozen=True)
class Row:
    """One image. versions: of SHOWN and of CUDA's runtime, "" for what it has not; fabric: where it comes from and its
    version; production: whether it may carry a production tag."""

    image: str
    versions: dict[str, str]
    fabric: str
    nccl_over_efa: bool
    production: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def rows(pins: Pins, folder: Path = locks.FOLDER) -> Iterator[Row]:
    """A row for each lock that there is."""
    for release, variant in sorted(pins.selections):
        for arch in pins.arches:
            path = locks.path(release, variant, arch, folder)
            if not path.exists():
                continue
            selection, lock = pins.select(release, variant, arch), file.read(path)
            real = selection.fabric_label == "installer"
            by_name = {wheel.name: wheel.version for wheel in lock.wheels}
            versions = {name: by_name.get(name, "") for name in SHOWN}
            cuda = by_name.get("nvidia-cuda-runtime", "")
            fabric = f"{selection.fabric_label} {_fabric_version(lock)}".strip()
            yield Row(selection.label, {**versions, "cuda": cuda}, fabric, real, real or not cuda)


def _fabric_version(lock: Lock) -> str:
    """Of libfabric's source, or of the EFA installer."""
    return next((artifact.version for artifact in (*lock.installers, *lock.sources)), "")


def table(found: Sequence[Row]) -> str:
    """For people."""
    head: tuple[str, ...] = ("image", *SHOWN, "cuda", "fabric", "NCCL over EFA", "production tag")
    lines: list[tuple[str, ...]] = [head]
    lines += [
        (
            row.image,
            *(row.versions[name] or "-" for name in (*SHOWN, "cuda")),
            row.fabric,
            "yes" if row.nccl_over_efa else "no",
            "yes" if row.production else "no",
        )
        for row in found
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
