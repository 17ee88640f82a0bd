from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.lock.model import Artifact
from slipway.sources.http import Http
from slipway.sources.retry import RetryPolicy
from slipway.store import Store
from tests.unit.store.server import Server, serving

FAST = RetryPolicy(tries=4, first=0.001, most=0.002)


def artifact(content: bytes, name: str = "thing", version: str = "1.0") -> Artifact:
    return Artifact(name, version, f"{name}-{version}.bin", len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def http() -> Http:
    return Http(policy=FAST, environ={})
