"""Stopping: a served and a still loading demo end within 30 s of SIGTERM, and leave no process behind."""

from __future__ import annotations

import pytest

from tests.container.conftest import START_SECONDS
from tests.container.docker import ARBITRARY, OFFLINE, READ_ONLY, Docker

pytestmark = pytest.mark.needs("serve_app")

STOP_SECONDS = 30
READY = r"^serve_app \+[\d.]+s ready:"
ASK = """
import json, urllib.request
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://127.0.0.1:8000" + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)
model = ask("/v1/models")["data"][0]["id"]
messages = [{"role": "user", "content": "Hello"}]
answer = ask("/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 4})
print(answer["usage"]["completion_tokens"])
"""


def test_the_strictest_container_serves_and_stops(docker: Docker) -> None:
    """Unknown user, read-only root, no network, empty caches: nothing is downloaded and nothing written elsewhere."""
    options = (
        *OFFLINE,
        *ARBITRARY,
        *READ_ONLY,
        "--shm-size",
        "1g",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
    )
    with docker.started("serve_app", "serve", "--demo", options=options) as container:
        container.wait_for_log(READY, START_SECONDS)
        done = container.exec("python", "-c", ASK, timeout=300)
        assert int(done.out) >= 1
        code, seconds = container.signal_and_wait("TERM", STOP_SECONDS)
        assert code == 0, container.logs()
    print(f"stopped in {seconds:.1f} s")


@pytest.mark.parametrize("wait", ["at once", "while the engine loads"])
def test_it_stops_while_it_still_loads(docker: Docker, wait: str) -> None:
    with docker.started("serve_app", "serve", "--demo", options=(*OFFLINE, "--shm-size", "1g")) as container:
        if wait != "at once":
            container.wait_for_log("EngineCore", START_SECONDS)
        code, _ = container.signal_and_wait("TERM", STOP_SECONDS)
        assert code in (0, 143), container.logs()
        assert not container.state()["OOMKilled"]


def test_an_interrupt_stops_it_too(docker: Docker) -> None:
    with docker.started("serve_app", "serve", "--demo", options=(*OFFLINE, "--shm-size", "1g")) as container:
        container.wait_for_log("serve_app", 120)
        code, _ = container.signal_and_wait("INT", STOP_SECONDS)
        assert code in (0, 130), container.logs()
