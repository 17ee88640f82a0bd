from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.sources.retry import RetryPolicy
from tests.unit.registry.fake import Registry, running

# A busy machine must not fail a test that says nothing about time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

FAST = RetryPolicy(tries=4, first=0.001, most=0.002)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as server:
        yield server


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The folder of a docker configuration; empty."""
    folder = tmp_path / "docker"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(registry: Registry, config: Path) -> Repository:
    reference = parse_reference(f"{registry.host}/team/thing:1")
    return Repository(reference, Http(policy=FAST, environ={}), {"DOCKER_CONFIG": str(config)})


def log_in(config: Path, host: str, user: str = "me", password: str = "secret") -> None:  # noqa: S107
    auths = {"auths": {host: {"username": user, "password": password}}}
    (config / "config.json").write_text(json.dumps(auths))
