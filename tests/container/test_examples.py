"""docker/examples/deployment is built FROM the image under test and keeps its own promises."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import uuid
from collections.abc import Iterator

import pytest

from slipway.cli.common import ROOT
from tests.container import machine
from tests.container.docker import Docker

pytestmark = pytest.mark.needs("apt", "pip", "serve_app")

EXAMPLE = ROOT / "docker" / "examples" / "deployment"
SECONDS = 60
"""On a busy two-core machine; 20 s is what it should take on an idle one, and README says what it did."""


@pytest.fixture(scope="module")
def built(
    docker: Docker, able: frozenset[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, float]]:
    """Name of the built example, and the seconds it took.

    The example's own Dockerfile, with this machine's way to package archives in front of each RUN.
    """
    if not docker.has_buildkit:
        pytest.skip("docker buildx is not installed: the build needs secrets to reach this machine's package sources")
    network = machine.network()
    secrets = {"ca": (network.ca, machine.CA_IN_CONTAINER)} if network.ca else {}
    folder = tmp_path_factory.mktemp("deployment")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    own = docker.run("sh", "-c", "cat /etc/apt/sources.list.d/*.sources").out
    if (sources := machine.apt_sources(own)) is not None:
        path = folder.with_name("sources")
        path.write_text(sources)
        secrets["sources"] = (path, docker.run("sh", "-c", "ls /etc/apt/sources.list.d/*.sources").out.split()[0])
    mounts = " ".join(f"--mount=type=secret,mode=0444,id={name},target={at}" for name, (_, at) in secrets.items())
    text, count = re.subn(r"^RUN ", f"RUN {mounts} {network.shell} ".replace("\\", r"\\"),
                          (EXAMPLE / "Dockerfile").read_text(), flags=re.MULTILINE)  # fmt: skip
    assert count == 2
    (folder / "Dockerfile").write_text(text)
    name = f"slipway-test-example:{uuid.uuid4().hex[:12]}"
    passed = [word for secret, (path, _) in secrets.items() for word in ("--secret", f"id={secret},src={path}")]
    # By its tag: BuildKit asks a registry for a digest, and this image may be in the engine only.
    base = docker.image.reference
    start = time.monotonic()
    docker.engine.docker(
        *("buildx", "build", "--load", "--progress=plain", "--network=host", "--provenance=false", "--no-cache"),
        *("--build-arg", f"IMAGE={base}", "--tag", name, *passed, str(folder)),
        timeout=600,
    )
    seconds = time.monotonic() - start
    try:
        yield name, seconds
    finally:
        with contextlib.suppress(Exception):
            docker.engine.docker("image", "rm", "-f", name, check=False)


def test_it_is_quick(built: tuple[str, float]) -> None:
    print(f"built in {built[1]:.1f} s")
    assert built[1] < SECONDS


def test_it_keeps_its_own_promises(docker: Docker, built: tuple[str, float]) -> None:
    said = docker.run("/srv/check", image=built[0]).out
    assert "/srv/llm.yaml: fine" in said
    assert re.search(r"\d{2,} packages are as the image brought them", said)


def test_it_starts_its_own_configuration_as_the_images_user(docker: Docker, built: tuple[str, float]) -> None:
    found = docker.engine.image(built[0])
    assert found is not None
    config = found["Config"]
    assert config["Cmd"] == ["serve_app", "serve", "/srv/llm.yaml"]
    assert (config["User"], config["Entrypoint"]) == (docker.image.config["User"], docker.image.config["Entrypoint"])


@pytest.mark.needs("torch")
def test_pip_can_not_move_torch(docker: Docker) -> None:
    """Under the image's constraints another torch is a conflict, told before anything is installed."""
    words = ("pip", "install", "--dry-run", "-c", "/opt/slipway/constraints.txt", "torch==2.0.1")
    done = docker.run(*words, options=(*machine.network().options, "--user", "0:0"), check=False)
    assert done.code != 0
    assert "conflict" in (done.out + done.err).lower()


def test_the_example_says_what_it_is_built_from() -> None:
    assert "FROM ${IMAGE}" in (EXAMPLE / "Dockerfile").read_text()
    assert "@sha256:" in (EXAMPLE / "README.md").read_text()
