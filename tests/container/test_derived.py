"""What a deployment repo does: FROM the image, an apt package, a pip package; and everything still works."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container import machine
from tests.container.docker import OFFLINE, Docker

pytestmark = pytest.mark.needs("apt", "pip")

PIP_PACKAGE = "cowsay"
APT_PACKAGE = "jq"
"""Small ones that the image does not have; jq brings shared libraries, so that ld.so's cache is written anew."""

DOCKERFILE = """\
FROM {image}
USER root
RUN {mounts} {shell} apt-get update && apt-get install -y --no-install-recommends {apt} && rm -rf /var/lib/apt/lists/*
RUN {mounts} {shell} pip install --no-cache-dir {pip}
USER 1000:0
"""


@pytest.fixture(scope="module")
def derived(docker: Docker, able: frozenset[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of an image made FROM the one under test."""
    if not able >= {"apt", "pip"}:
        pytest.skip("the image has no apt or no pip")
    if not docker.has_buildkit:
        pytest.skip("docker buildx is not installed: the build needs secrets to reach this machine's package sources")
    network = machine.network()
    secrets = {"ca": network.ca} if network.ca else {}
    own = docker.run("sh", "-c", "cat /etc/apt/sources.list.d/*.sources").out
    sources = machine.apt_sources(own)
    folder = tmp_path_factory.mktemp("derived")
    targets = {"ca": machine.CA_IN_CONTAINER}
    if sources is not None:
        (folder / "sources").write_text(sources)
        secrets["sources"] = folder / "sources"
        targets["sources"] = docker.run("sh", "-c", "ls /etc/apt/sources.list.d/*.sources").out.split()[0]
    mounts = " ".join(f"--mount=type=secret,mode=0444,id={name},target={targets[name]}" for name in secrets)
    text = DOCKERFILE.format(
        image=docker.image.reference, mounts=mounts, shell=network.shell, apt=APT_PACKAGE, pip=PIP_PACKAGE
    )
    (folder / "Dockerfile").write_text(text)
    name = f"slipway-test-derived:{uuid.uuid4().hex[:12]}"
    passed = [word for secret, path in secrets.items() for word in ("--secret", f"id={secret},src={path}")]
    docker.engine.docker(
        *("buildx", "build", "--load", "--progress=plain", "--network=host", "--provenance=false"),
        *("--tag", name, *passed, str(folder)),
        timeout=900,
    )
    try:
        yield name
    finally:
        with contextlib.suppress(Exception):
            docker.engine.docker("image", "rm", "-f", name, check=False)


def test_the_apt_package_works(docker: Docker, derived: str) -> None:
    assert docker.run("jq", "-n", "1+1", image=derived).out.strip() == "2"


def test_the_pip_package_works_beside_the_images_own(docker: Docker, derived: str) -> None:
    code = f"import {PIP_PACKAGE}, importlib.metadata as m; print(m.version({PIP_PACKAGE!r}), {PIP_PACKAGE}.__file__)"
    assert "/opt/venv/" in docker.run("python", "-c", code, image=derived).out


@pytest.mark.needs("fabric")
def test_ld_so_still_finds_libfabric(docker: Docker, derived: str) -> None:
    """apt's trigger has written /etc/ld.so.cache anew by now."""
    code = "import ctypes; ctypes.CDLL('libfabric.so.1'); print('found')"
    assert docker.run("python", "-c", code, image=derived).out.strip() == "found"


@pytest.mark.needs("vllm", "ray")
def test_the_images_own_packages_are_as_they_were(docker: Docker, derived: str) -> None:
    code = "import importlib.metadata as m; print(sorted(f'{d.name}=={d.version}' for d in m.distributions()))"
    before = set(eval(docker.python(code)))  # noqa: S307 - the list that our own line of Python printed
    after = set(eval(docker.run("python", "-c", code, image=derived).out))  # noqa: S307
    assert before < after
    assert {line.partition("==")[0] for line in after - before} == {PIP_PACKAGE}


def test_what_apt_did_leaves_no_leftovers(docker: Docker, derived: str) -> None:
    script = "find /var/cache/apt /var/lib/apt/lists /usr/share/man /usr/share/doc -type f"
    found = docker.run("sh", "-c", script, image=derived, options=(*OFFLINE, "--user", "0:0")).out.split()
    assert [path for path in found if not path.endswith(("/copyright", "/lock"))] == []


def test_apt_keeps_debians_own_sources_with_security_updates(docker: Docker) -> None:
    sources = docker.run(
        "sh", "-c", "cat /etc/apt/sources.list.d/*.sources; cat /etc/apt/sources.list 2>/dev/null; true"
    ).out
    assert "trusted" not in sources.lower()
    assert "-security" in sources
    assert "Signed-By: /usr/share/keyrings/" in sources


@pytest.mark.needs("ray")
def test_ray_installs_a_runtime_env_as_the_images_user(docker: Docker) -> None:
    """Ray clones the venv it runs in and installs into the clone; that takes a real venv, pip and virtualenv."""
    code = f"""
import os, ray
ray.init(num_cpus=1, include_dashboard=False, runtime_env={{"pip": [{PIP_PACKAGE!r}]}}, log_to_driver=False)
@ray.remote
def where():
    import {PIP_PACKAGE}, vllm.version
    return os.getuid(), {PIP_PACKAGE}.__file__
uid, path = ray.get(where.remote(), timeout=400)
print("uid", uid, path)
"""
    options = (*machine.network().options, "--shm-size", "1g")
    said = docker.python(code, options=options, timeout=900)
    assert "uid 1000 /tmp/ray/" in said


def test_the_idle_user_cannot_change_the_images_packages(docker: Docker) -> None:
    done = docker.run("pip", "install", "--no-index", "--no-deps", "/nowhere", options=OFFLINE, check=False)
    assert done.code != 0


def test_the_dockerfile_leaves_no_secret(docker: Docker, derived: str) -> None:
    assert docker.run("sh", "-c", "find /run/secrets -type f -size +0 2>/dev/null; true", image=derived).out == ""
    assert not Path(machine.CA_IN_CONTAINER).is_relative_to("/opt")
