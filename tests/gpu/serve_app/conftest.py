"""One stack for all tests of this folder. Needs Ray, vLLM and NIXL: run it with the image's Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import stack as stacks  # noqa: E402

pytest.importorskip("ray", reason="needs the image's Python")
pytest.importorskip("vllm", reason="needs the image's Python")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stacks.Stack]:
    """The running stack."""
    with stacks.running(tmp_path_factory.mktemp("stack")) as running:
        yield running
