"""Fixtures of the fabric, nixl and kv tests. Their conftest.py take them in by name."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from slipway.cli.test import IMAGE
from slipway.engine.find import probe
from slipway.engine.model import Engine
from slipway.testing import two_nodes
from slipway.testing.two_nodes import TwoNodes
from tests.container.docker import Docker, Image
from tests.gpu.harness.node import Node, reached_by

PORTS = itertools.count(7300)
"""One a use: a port that was listened on just now may not be free yet."""


@dataclass(frozen=True)
class Pair:
    """Two nodes, and what they are tested for."""

    a: Node
    b: Node
    fabric: str
    device: str
    tier: str


@pytest.fixture(scope="session")
def options() -> TwoNodes:
    return TwoNodes.read(os.environ)


@pytest.fixture(scope="session")
def pair(options: TwoNodes) -> Iterator[Pair]:
    """The two nodes, for all tests of a folder."""
    fabric = options.wanted_fabric(two_nodes.efa_here())
    device = options.wanted_device(two_nodes.gpu_here())
    if options.nodes:
        a, b = (
            reached_by(f"node {name}", two_nodes.prefix(word)) for name, word in zip("ab", options.nodes, strict=True)
        )
        yield Pair(a, b, fabric, device, options.tier)
        return
    found = probe()
    reference = os.environ.get(IMAGE)
    if not isinstance(found, Engine) or not reference:
        pytest.skip("no engine or no image to test; python3 build.py test gpu brings both")
    document = found.image(reference)
    assert document is not None, f"the engine has no image {reference}"
    docker = Docker(found, Image(reference, document))
    with contextlib.ExitStack() as stack:
        nodes = []
        for _ in range(2):
            container = stack.enter_context(
                docker.started("sleep", "infinity", options=container_options(fabric, device))
            )
            address = found.docker("inspect", "-f", "{{.NetworkSettings.IPAddress}}", container.name).out.strip()
            if not address:  # an engine whose default network is another one
                form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
                address = found.docker("inspect", "-f", form, container.name).out.strip()
            nodes.append(Node(container.name, ("docker", "exec", "-i", container.name), address, found.env))
        yield Pair(nodes[0], nodes[1], fabric, device, options.tier)


def container_options(fabric: str, device: str) -> tuple[str, ...]:
    """For `docker run`: what the fabric and the GPU need, on top of shared memory for Ray."""
    efa = ("--device", "/dev/infiniband", "--cap-add", "IPC_LOCK") if fabric == "efa" else ()
    return ("--shm-size", "1g", *efa, *(("--gpus", "all") if device == "cuda" else ()))


@pytest.fixture(scope="session")
def need(options: TwoNodes) -> Callable[[str, bool], None]:
    """need("efa", there): goes on where it is there; else the test does not run, or fails when it was required."""

    def check(what: str, there: bool) -> None:
        if not there:
            failure, says = options.verdict_on_missing(what)
            (pytest.fail if failure else pytest.skip)(says)

    return check
