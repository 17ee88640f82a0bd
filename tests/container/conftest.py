"""What container tests share: the engine, the image, one idle container and one running demo.

`python3 build.py test` names the image and the engine; without them the tests are skipped. A test that needs
something of the image says so with the marker `needs`; tests/container/test_promises.py says what Slipway's own
images must have, so that an image that lost something fails there and not by skipping.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import testinfra

from slipway.cli.test import IMAGE
from slipway.engine.find import probe
from slipway.engine.model import Engine
from tests.container import abilities
from tests.container.docker import Container, Docker, Image

START_SECONDS = 900
"""For the demo on two busy cores; 60 to 120 s when nothing else runs."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*abilities): skip unless the image can do this (tests/container/abilities.py)"
    )


@pytest.fixture(scope="session")
def engine() -> Engine:
    found = probe()
    if not isinstance(found, Engine):
        pytest.skip("no container engine answers; python3 build.py test container brings one")
    return found


@pytest.fixture(scope="session")
def image(engine: Engine) -> Image:
    reference = os.environ.get(IMAGE)
    if not reference:
        pytest.skip(f"no image to test: {IMAGE} is not set; python3 build.py test container sets it")
    document = engine.image(reference)
    assert document is not None, f"the engine has no image {reference}"
    return Image(reference, document)


@pytest.fixture(scope="session")
def docker(engine: Engine, image: Image) -> Docker:
    return Docker(engine, image)


@pytest.fixture(scope="session")
def able(docker: Docker) -> frozenset[str]:
    """What the image can do, found by trying."""
    found = docker.run("sh", "-c", abilities.SCRIPT, options=("--network", "none", "--entrypoint", "")).out
    return frozenset(json.loads(found))


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    for marker in request.node.iter_markers("needs"):
        lacking = set(marker.args) - request.getfixturevalue("able")
        if lacking:
            pytest.skip(f"the image has no {', '.join(sorted(lacking))}")


@pytest.fixture(scope="session")
def idle(docker: Docker) -> Iterator[Container]:
    """A container that does nothing, without a network, for looking around in."""
    with docker.started("sleep", "infinity") as container:
        yield container


@pytest.fixture(scope="session")
def host(idle: Container) -> testinfra.host.Host:
    """testinfra's view of the idle container, as the image's own user."""
    return testinfra.get_host(f"docker://{idle.name}")


@pytest.fixture(scope="session")
def root_host(idle: Container) -> testinfra.host.Host:
    """The same as root."""
    return testinfra.get_host(f"docker://root@{idle.name}")


@pytest.fixture(scope="session")
def demo(docker: Docker, able: frozenset[str]) -> Iterator[Container]:
    """A running demo that answers, published on a port of this machine."""
    if "serve_app" not in able:
        pytest.skip("the image has no serve_app")
    options = ("--publish", "127.0.0.1::8000", "--shm-size", "1g")
    with docker.started("serve_app", "serve", "--demo", options=options) as container:
        wait_until_it_answers(container)
        yield container


@pytest.fixture(scope="session")
def demo_url(demo: Container) -> str:
    return demo.url(8000)


def wait_until_it_answers(container: Container) -> None:
    deadline = time.monotonic() + START_SECONDS
    address = f"{container.url(8000)}/ready"  # /v1/models answers before the model can
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310
                if answer.status == 200:
                    return
        except (OSError, urllib.error.HTTPError):
            pass
        assert container.state()["Running"], f"the demo ended:\n{container.logs()}"
        assert time.monotonic() < deadline, f"the demo does not answer:\n{container.logs()}"
        time.sleep(1)
