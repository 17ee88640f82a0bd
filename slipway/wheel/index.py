"""What a wheel installs, as a small file beside the layer cache: two wheels' claims to a path show without opening any.

    <root>/wheels/ab/<sha256 of the wheel>.<8 digits>.json

The 8 digits stand for everything else that the list depends on: this file's format, the venv's folder and Python,
whether the wheel's RECORD is excused.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag

from slipway.host.replace import write_whole
from slipway.lock.model import Wheel
from slipway.wheel.content import FORMAT, OpenWheel
from slipway.wheel.install import File
from slipway.wheel.paths import Venv

INDEX_FORMAT = 2


@dataclass(frozen=True)
class WheelIndex:
    """files: path in the image → what lies there, "sha256=… 644" or "-> target"; equal text means equal files.

    RECORD is left out: no two wheels share one.
    """

    files: Mapping[str, str]

    @classmethod
    def of(cls, wheel: OpenWheel) -> WheelIndex:
        return cls({file.path: _identity(file) for file in wheel.files})

    def dump(self) -> str:
        """As JSON: two long texts, which parse many times faster than a long list, and a checksum over them."""
        paths, files = "\n".join(self.files), "\n".join(self.files.values())
        return json.dumps({"paths": paths, "files": files, "sum": _checksum(paths, files)})

    @classmethod
    def load(cls, text: str) -> WheelIndex:
        """The reverse of `dump`. Raises ValueError, KeyError or TypeError for something else."""
        document = json.loads(text)
        paths, files = document["paths"], document["files"]
        if document["sum"] != _checksum(paths, files):
            raise ValueError("a damaged index")
        return cls(dict(zip(paths.split("\n"), files.split("\n"), strict=True)))


def _checksum(paths: str, files: str) -> str:
    return hashlib.sha256(f"{paths}\0{files}".encode()).hexdigest()


def _identity(file: File) -> str:
    return f"-> {file.target}" if file.target else f"{file.row.hash} {file.mode:o}"


class Indexes:
    """Indexes of wheels below a cache's root, for one image's venv."""

    def __init__(
        self,
        root: Path,
        venv: Venv,
        *,
        tags: Collection[Tag] | None = None,
        excuses: Mapping[str, str] | None = None,
    ) -> None:
        self._root = root
        self._venv = venv
        self._tags = tags
        self._excuses = excuses or {}

    def path(self, wheel: Wheel) -> Path:
        """Where the index lies, or would."""
        excused = wheel.sha256 in self._excuses
        venv = self._venv
        context = f"{INDEX_FORMAT} {FORMAT} {venv.prefix} {venv.python} {venv.interpreter} {excused} {wheel.file}"
        digits = hashlib.sha256(context.encode()).hexdigest()[:8]
        return self._root / "wheels" / wheel.sha256[:2] / f"{wheel.sha256}.{digits}.json"

    def get(self, wheel: Wheel) -> WheelIndex | None:
        """The index if it was made before; a damaged one counts as absent."""
        try:
            return WheelIndex.load(self.path(wheel).read_text("utf-8"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def make(self, wheel: Wheel, file: Path) -> WheelIndex:
        """Read the wheel in `file` and keep its index where that can be written. Raises what OpenWheel raises."""
        with (
            paused_gc(),
            OpenWheel(file, wheel, self._venv, tags=self._tags, excuse=self._excuses.get(wheel.sha256)) as opened,
        ):
            index = WheelIndex.of(opened)
        self.put(wheel, index)
        return index

    def make_from(self, wheel: Wheel, content: bytes) -> WheelIndex:
        """The same for a wheel that is only in memory."""
        descriptor = os.memfd_create(wheel.file[:200])
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            return self.make(wheel, Path(f"/proc/self/fd/{descriptor}"))

    def put(self, wheel: Wheel, index: WheelIndex) -> None:
        """Keep an index, also one that came from elsewhere. A cache that can't be written stays as it is."""
        path = self.path(wheel)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, index.dump().encode())


@contextlib.contextmanager
def paused_gc() -> Iterator[None]:
    """No garbage collection meanwhile: it would walk tens of thousands of live members again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
