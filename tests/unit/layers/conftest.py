"""A store of made-up wheels for tests of layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.lock.model import Artifact, Wheel
from slipway.store.store import Store
from tests.unit.wheel.maker import make_wheel


class Warehouse:
    """Makes wheels and puts them into a store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(root / "store")

    def wheel(self, name: str = "demo", **changes: object) -> Wheel:
        (self.root / "made").mkdir(exist_ok=True)
        if "files" not in changes:
            changes["files"] = {f"{name}/__init__.py": f"name = '{name}'\n"}
        wheel, path = make_wheel(self.root / "made", name=name, **changes)
        self.store.add_file(path)
        return wheel

    def damage(self, artifact: Artifact) -> None:
        """Flip a byte of the store's file, keeping what a look at it shows."""
        import os

        path = self.store.path(artifact.sha256)
        before = path.stat()
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.write(raw)
        path.chmod(before.st_mode)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)
