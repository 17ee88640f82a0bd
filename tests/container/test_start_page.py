"""The start page's way: prefill and decode in one container, an answer whose prompt came through NIXL.

The commands are the page's own (docs/index.md); only the port and the folder of the checkout are put in.
"""

from __future__ import annotations

import json
import re
import shlex
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.cli.common import ROOT
from slipway.image.definition import reference
from slipway.pins import load
from slipway.testing.metrics import Metrics, parse
from tests.container.conftest import wait_until_it_answers
from tests.container.docker import Container, Docker

pytestmark = pytest.mark.needs("serve_app", "ray", "nixl")

BUILD, SERVE, ASK, LOOK = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "index.md").read_text(), re.M | re.S)
IMAGE = reference(load(ROOT / "versions.toml").select(None, None, None))
"""What the page's first command makes: the default image."""

KV_BYTES_A_TOKEN = 1024
"""Far below what the demo model keeps for a token (16 KiB)."""


def words(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", " ").replace("$PWD", str(ROOT)))


@pytest.fixture(scope="module")
def served(docker: Docker) -> Iterator[Container]:
    engine, verb, *rest = words(SERVE)
    assert (engine, verb) == ("docker", "run")
    at = rest.index(IMAGE)
    options = ["127.0.0.1::8000" if word == "8000:8000" else word for word in rest[:at] if word != "--rm"]
    with docker.started(*rest[at + 1 :], options=options) as container:
        wait_until_it_answers(container)
        yield container


def get(url: str, data: str | None = None) -> str:
    body = None if data is None else data.encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
        text: str = answer.read().decode()
    return text


def at(command: str, container: Container) -> str:
    """The address that one of the page's curl commands asks."""
    [address] = [word for word in words(command) if word.startswith("localhost:8000/")]
    return address.replace("localhost:8000", container.url(8000))


def test_the_first_command_builds_and_loads() -> None:
    """test_engine and test_build_again run what it does."""
    assert words(BUILD) == ["python3", "build.py", "--load"]


def test_the_answer_went_through_prefill_and_decode(served: Container) -> None:
    asked = words(ASK)
    before = parse(get(at(LOOK, served)))
    answer: dict[str, Any] = json.loads(get(at(ASK, served), asked[asked.index("-d") + 1]))
    after = parse(get(at(LOOK, served)))
    assert answer["choices"][0]["message"]["content"]
    tokens = answer["usage"]["prompt_tokens"]

    def grown(name: str, **labels: str) -> float:
        return _sum(after, name, labels) - _sum(before, name, labels)

    outside = grown("vllm:prompt_tokens_by_source_total", source="external_kv_transfer")
    moved = grown("vllm:nixl_bytes_transferred_sum")
    print(f"{tokens} prompt tokens, {outside:.0f} from outside, NIXL moved {moved:.0f} bytes")
    assert 0 < outside <= tokens
    assert moved >= outside * KV_BYTES_A_TOKEN


def _sum(metrics: Metrics, name: str, labels: dict[str, str]) -> float:
    return metrics.sum(name, **labels)


def test_the_page_shows_what_to_look_for(served: Container) -> None:
    """What the last command greps for is there."""
    wanted = words(LOOK.partition("|")[2])[-1]
    assert [line for line in get(at(LOOK, served)).splitlines() if wanted in line]
