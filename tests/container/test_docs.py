"""What the documentation says to run in the image, runs in it."""

from __future__ import annotations

import re

import pytest

from slipway.cli.common import ROOT
from tests.container.docker import Docker

pytestmark = pytest.mark.needs("serve_app")

DOCS = ROOT / "docs"
FENCE = re.compile(r"^```\{[^}\n]*\.container[^}\n]*\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = [(page.name, body.strip()) for page in sorted(DOCS.glob("*.md")) for body in FENCE.findall(page.read_text())]
MOVING = re.compile(r"```yaml\n(model_loading_config:.*?)```", re.DOTALL)


def test_there_are_some() -> None:
    assert len(COMMANDS) >= 2


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[page for page, _ in COMMANDS])
def test_commands_run_in_the_image(docker: Docker, page: str, command: str) -> None:
    [moving] = MOVING.findall((DOCS / "moving.md").read_text())
    script = f"cat > /tmp/moving.yaml && {command.replace('/srv/', '/tmp/')}"
    options = ("--network", "none")
    done = docker.run("bash", "-euc", script, options=options, data=moving.encode())
    assert done.out
