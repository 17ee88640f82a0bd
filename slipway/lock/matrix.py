"""Which releases there are with which fabric, as a table: what `build.py lock` prints at its end.

A CUDA image has a row for the fabric that it is locked with and one for the other, which is one pin away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from slipway import lock as locks
from slipway.lock import file
from slipway.lock.model import EfaInstaller, Lock, Source
from slipway.pins import Pins, Selection

SHOWN = ("ray", "vllm", "torch", "nixl")


Fits = Callable[[Selection, Lock], str]
"""Whether the wheels' libfabric versions are there, in a few words (slipway.ahead.abi.fits)."""


@dataclass(frozen=True)
class Row:
    """One image. versions: of SHOWN and of CUDA's runtime, "" for what it has not; fabric: where it comes from and its
    version; locked: whether it is the one in locks/; abi: whether NIXL and this libfabric fit; production: whether it
    may carry a production tag."""

    image: str
    versions: dict[str, str]
    fabric: str
    locked: bool
    abi: str
    nccl_over_efa: bool
    production: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def rows(
    pins: Pins, folder: Path = locks.FOLDER, fits: Fits = lambda selection, lock: "not looked at"
) -> Iterator[Row]:
    """A row for each lock that there is, and for the fabric that a CUDA image could have instead."""
    for release, variant in sorted(pins.selections):
        for arch in pins.arches:
            path = locks.path(release, variant, arch, folder)
            if not path.exists():
                continue
            selection, lock = pins.select(release, variant, arch), file.read(path)
            yield _row(selection, lock, fits)
            other = _other_fabric(selection, lock)
            if other is not None:
                yield replace(_row(*other, fits), locked=False)


def _row(selection: Selection, lock: Lock, fits: Fits) -> Row:
    real = selection.fabric_label == "installer"
    by_name = {wheel.name: wheel.version for wheel in lock.wheels}
    versions = {name: by_name.get(name, "") for name in SHOWN}
    cuda = by_name.get("nvidia-cuda-runtime", "")
    fabric = f"{selection.fabric_label} {_fabric_version(lock)}".strip()
    versions["cuda"] = cuda
    return Row(selection.label, versions, fabric, True, fits(selection, lock), real, real or not cuda)


def _other_fabric(selection: Selection, lock: Lock) -> tuple[Selection, Lock] | None:
    """The same with its fabric from the pin that is not used, None where there is no GPU or no such pin."""
    if all(wheel.name != "nvidia-cuda-runtime" for wheel in lock.wheels):
        return None
    if selection.fabric == "installer":
        source = selection.libfabric
        found = Source("libfabric", source.version, source.file, 0, source.sha256)
        return replace(selection, fabric="source"), replace(lock, sources=(found,), installers=())
    pin = selection.installer
    if pin is None:
        return None
    installer = EfaInstaller("aws-efa-installer", pin.version, pin.file, pin.size, pin.sha256)
    return replace(selection, fabric="installer"), replace(lock, sources=(), installers=(installer,))


def _fabric_version(lock: Lock) -> str:
    """Of libfabric's source, or of the EFA installer."""
    return next((artifact.version for artifact in (*lock.installers, *lock.sources)), "")


def table(found: Sequence[Row]) -> str:
    """For people."""
    head: tuple[str, ...] = ("image", *SHOWN, "cuda", "fabric", "locked", "fits NIXL", "NCCL over EFA")
    head += ("production tag",)
    lines: list[tuple[str, ...]] = [head]
    lines += [
        (
            row.image,
            *(row.versions[name] or "-" for name in (*SHOWN, "cuda")),
            row.fabric,
            "yes" if row.locked else "no",
            row.abi,
            "yes" if row.nccl_over_efa else "no",
            "yes" if row.production else "no",
        )
        for row in found
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
