"""Two nodes that run the image (tests/gpu/harness), and on them one stack for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway.testing.kv_proof import Evidence
from tests.gpu.harness.fixtures import Pair, need, options, pair
from tests.gpu.kv import gather
from tests.gpu.kv.stack import Stack, running

__all__ = ["need", "options", "pair"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The quick tier proves NIXL's LIBFABRIC, which is what runs on EFA; the full one UCX, too."""
    if "backend" in metafunc.fixturenames:
        full = metafunc.config.stash.get(_TIER, "quick") == "full"
        metafunc.parametrize("backend", ["libfabric", "ucx"] if full else ["libfabric"], scope="session")


_TIER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    import os

    from slipway.testing.two_nodes import TwoNodes

    config.stash[_TIER] = TwoNodes.read(os.environ).tier


@pytest.fixture(scope="session")
def stack(pair: Pair, backend: str) -> Iterator[Stack]:
    """Prefill on one node, decode on the other."""
    with running(pair, backend) as found:
        found.warm(gather.prompts(1, seed=0)[0])
        yield found


@pytest.fixture(scope="session")
def evidence(stack: Stack) -> Evidence:
    """What was counted while prompts went the ordinary way."""
    found = gather.evidence(stack, gather.prompts(6, seed=1))
    print(found)
    return found
