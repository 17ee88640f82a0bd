"""What Slipway's own images must be able to do, and what they say about themselves."""

from __future__ import annotations

import re

import pytest

from tests.container import abilities
from tests.container.docker import Docker, Image

RELEASE = "io.slipway.release"


@pytest.fixture
def own(image: Image) -> Image:
    if RELEASE not in image.labels:
        pytest.skip(f"not an image of Slipway's: no label {RELEASE}")
    return image


def test_it_can_do_everything(own: Image, able: frozenset[str]) -> None:
    assert able == abilities.of(own.labels["io.slipway.variant"])


def test_labels_say_which_pins_it_is(own: Image) -> None:
    labels = own.labels
    assert re.fullmatch(r"\d+\.\d+", labels[RELEASE])
    assert labels["io.slipway.variant"] in ("cpu", "cuda")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", labels["io.slipway.pins"])
    assert labels["org.opencontainers.image.title"]
    assert labels["org.opencontainers.image.version"] == labels["io.slipway.version.ray"]


@pytest.mark.needs("ray", "vllm", "torch", "nixl")
@pytest.mark.parametrize("name", ["ray", "vllm", "torch", "nixl"])
def test_labels_agree_with_what_is_installed(own: Image, docker: Docker, name: str) -> None:
    found = docker.python(f"import importlib.metadata as m; print(m.version({name!r}))").strip()
    assert own.labels[f"io.slipway.version.{name}"] == found


def test_nothing_in_it_says_when_or_where_it_was_made(own: Image) -> None:
    assert own.document["Created"].startswith("2020-09-13")
    assert not own.config.get("Hostname")


def test_it_starts_as_an_unprivileged_user(own: Image) -> None:
    assert own.config["User"] == "1000:0"
    assert own.config.get("StopSignal", "SIGTERM") == "SIGTERM"
    assert "8000/tcp" in own.config["ExposedPorts"]
    assert not own.config.get("Volumes")
