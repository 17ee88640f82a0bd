"""`build.py push` against the registry that Debian ships: open, with passwords, with tokens, and through breakdowns.

The images are small and made up; their labels are those of the pinned image. cosign, where it is installed or can be
taken from a later Debian, has to verify what was signed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.cli import common
from slipway.errors import MissingError
from slipway.push.content import Content, read_content
from slipway.push.tags import image_tags
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.testing.faults import Fault, faulty
from slipway.testing.layouts import incomplete, layout, real_labels, real_layout
from slipway.testing.registry import Auth, log_in, registry
from slipway.testing.tools import later_debian

SIZES = (1, 5_000, 400_000, 1_500_000)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[int]:
    with registry(tmp_path / "registry") as port:
        yield port


@pytest.fixture
def image(tmp_path: Path) -> Content:
    layout(tmp_path / "image", SIZES, real_labels())
    return read_content(tmp_path / "image")


def build(
    *words: object, environ: dict[str, str] | None = None, code: int = 0, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """`build.py WORDS`, which has to end with this exit code, in seconds."""
    command = [sys.executable, str(common.ROOT / "build.py"), *map(str, words)]
    environment = {**os.environ, **(environ or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
    assert done.returncode == code, done.stderr
    return done


def there(port: int, name: str = "slipway", environ: dict[str, str] | None = None) -> Repository:
    return Repository(parse_reference(f"127.0.0.1:{port}/{name}"), Http(environ=environ or {}), environ)


def is_whole(repository: Repository, image: Content) -> bool:
    tags = image_tags(image.labels, "amd64").all
    return not incomplete(repository) and all(repository.manifest_digest(tag) == image.digest for tag in tags)


@pytest.mark.parametrize("auth", ["", "htpasswd", "token"])
def test_into_a_registry(tmp_path: Path, image: Content, auth: Auth) -> None:
    with registry(tmp_path / "registry", auth) as port:
        words = ("push", image.layout.folder, "--registry", f"127.0.0.1:{port}", "--json")
        environ = {"DOCKER_CONFIG": str(tmp_path / "docker")}
        if auth:
            refused = json.loads(build(*words, environ=environ, code=5).stdout)
            assert "log in" in refused["remedy"]
            environ = log_in(tmp_path / "docker", f"127.0.0.1:{port}")
        (first,) = json.loads(build(*words, environ=environ).stdout)["images"]
        assert first["bytes_sent"] == sum(blob.size for blob in image.blobs)
        (again,) = json.loads(build(*words, environ=environ).stdout)["images"]
        assert again["bytes_sent"] == 0 and again["digest"] == first["digest"] == image.digest
        assert is_whole(there(port, environ=environ), image)
        assert len(first["attached"]) == 3


def test_a_token_that_ends_while_blobs_are_sent(tmp_path: Path) -> None:
    """One second's tokens, whatever the server says of them, over a proxy that makes the push last longer."""
    layout(tmp_path / "image", [20_000] * 12, real_labels())
    image = read_content(tmp_path / "image")
    with registry(tmp_path / "registry", "token", token_seconds=1.2) as port, faulty(port, Fault("slow", 12)) as proxy:
        environ = log_in(tmp_path / "docker", proxy.host, f"127.0.0.1:{port}")
        build("push", image.layout.folder, "--registry", proxy.host, environ=environ)
        assert proxy.fired
        assert is_whole(there(port, environ=environ), image)


FAULTS = [
    Fault("cut", 700_000),
    Fault("reset", 3),
    Fault("lost", 9),
    Fault("status", 5, 503),
    Fault("status", 8, 429),
    Fault("flip", 900_000),
    Fault("lies", 6),
    Fault("says", 2),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kind}{fault.status or ''}")
def test_one_thing_goes_wrong(plain: int, image: Content, fault: Fault) -> None:
    with faulty(plain, fault) as proxy:
        build("push", image.layout.folder, "--registry", proxy.host, "--attest", "none")
        assert proxy.fired
    assert is_whole(there(plain), image)


@pytest.mark.parametrize("at", [10, 1_000_000, 1_900_000])
def test_killed_and_run_again(plain: int, image: Content, at: int) -> None:
    """No tag names half an image, and what is there is not sent again."""
    command = [sys.executable, str(common.ROOT / "build.py"), "push", str(image.layout.folder), "--attest", "none"]
    with faulty(plain) as proxy:
        with subprocess.Popen([*command, "--registry", proxy.host], stderr=subprocess.DEVNULL) as process:
            proxy.fault = Fault("call", at, call=process.kill)
        assert process.returncode == -9
        repository = there(plain)
        assert not incomplete(repository)
        missing = sum(blob.size for blob in image.blobs if repository.blob_size(blob.digest) != blob.size)
        proxy.uploads.clear()
        build("push", image.layout.folder, "--registry", proxy.host, "--attest", "none")
        assert sum(proxy.uploads.values()) == missing
    assert is_whole(there(plain), image)


def test_faults_at_random(plain: int, tmp_path: Path, image: Content) -> None:
    """A dozen of what benchmarks/push_faults.py does two hundred times."""
    program = common.ROOT / "benchmarks" / "push_faults.py"
    seed = random.SystemRandom().randrange(1 << 30)
    done = subprocess.run(
        [sys.executable, str(program), "--pushes", "12", "--seed", str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stderr}{done.stdout}"


def test_an_immutable_tag_is_not_moved(plain: int, tmp_path: Path, image: Content) -> None:
    words = ("--registry", f"127.0.0.1:{plain}", "--attest", "none")
    build("push", image.layout.folder, *words)
    layout(tmp_path / "other", SIZES, real_labels(), seed=1)
    other = read_content(tmp_path / "other")
    said = build("push", other.layout.folder, *words, code=5).stderr
    assert image.digest in said and other.digest in said
    assert is_whole(there(plain), image)
    build("push", other.layout.folder, *words, "--revision", "1")
    assert there(plain).manifest_digest("2.60-cpu") == other.digest


def test_several_are_each_whole_or_absent(plain: int, tmp_path: Path, image: Content) -> None:
    labels = {**real_labels(), "io.slipway.lock": "sha256:" + "7" * 64}
    layout(tmp_path / "other", SIZES, labels, seed=1)
    other = read_content(tmp_path / "other")
    layer = other.layout.layers[-1].path
    layer.write_bytes(bytes(layer.stat().st_size))
    words = ("push", other.layout.folder, image.layout.folder, "--registry", f"127.0.0.1:{plain}")
    failed = json.loads(build(*words, "--no-moving", "--attest", "none", "--json", code=5).stdout)
    assert [row["state"] for row in failed["images"]] == ["absent", "whole"]
    assert not incomplete(there(plain))
    assert there(plain).manifest_digest(image_tags(image.labels, "amd64").immutable) == image.digest
    assert there(plain).manifest_digest(image_tags(labels, "amd64").immutable) is None


def test_indexes_and_moving_tags_at_the_end_of_a_pipeline(plain: int, tmp_path: Path) -> None:
    files = []
    for arch in ("amd64", "arm64"):
        layout(tmp_path / arch, SIZES, real_labels(), seed=len(arch + str(files)), arch=arch)
        files += ["--finish", tmp_path / f"{arch}.json"]
        words = ("push", tmp_path / arch, "--registry", f"127.0.0.1:{plain}", "--attest", "none", "--no-moving")
        build(*words, "--digest-file", tmp_path / f"{arch}.json")
    assert there(plain).manifest_digest("2.60-cpu") is None
    build("push", *files)
    index = json.loads(there(plain).manifest("2.60-cpu").content)
    assert [entry["platform"]["architecture"] for entry in index["manifests"]] == ["amd64", "arm64"]
    assert not incomplete(there(plain))


def test_a_dry_run_sends_nothing(plain: int, image: Content) -> None:
    words = ("push", image.layout.folder, "--registry", f"127.0.0.1:{plain}", "--dry-run", "--json")
    (plan,) = json.loads(build(*words).stdout)["images"]
    assert plan["bytes_to_send"] > sum(blob.size for blob in image.blobs)
    assert there(plain).manifest_digest(image.digest) is None
    build("push", image.layout.folder, "--registry", f"127.0.0.1:{plain}")
    (plan,) = json.loads(build(*words).stdout)["images"]
    assert plan["bytes_to_send"] == 0


def test_blobs_are_taken_over_from_another_repository(plain: int, image: Content) -> None:
    words = ("push", image.layout.folder, "--attest", "none", "--json", "--registry")
    build(*words, f"127.0.0.1:{plain}/staging")
    more = ("--mount-from", "staging/slipway")
    (moved,) = json.loads(build(*words, f"127.0.0.1:{plain}/production", *more).stdout)["images"]
    assert moved["bytes_sent"] == 0
    assert is_whole(there(plain, "production/slipway"), image)


def test_copied_with_its_proofs(plain: int, tmp_path: Path, image: Content) -> None:
    build("push", image.layout.folder, "--registry", f"127.0.0.1:{plain}")
    with registry(tmp_path / "other", "htpasswd") as port:
        environ = log_in(tmp_path / "docker", f"127.0.0.1:{port}")
        source, target = f"127.0.0.1:{plain}/slipway:2.60-cpu", f"127.0.0.1:{port}/kept:2.60-cpu"
        build("copy", source, target, environ=environ)
        build("verify", "--registry", target, "--no-rebuild", environ=environ)
        assert not incomplete(there(port, "kept", environ))


def test_no_registry_is_wrong_usage(image: Content) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "SLIPWAY_REGISTRY"}
    command = [sys.executable, str(common.ROOT / "build.py"), "push", str(image.layout.folder)]
    assert subprocess.run(command, env=environ, capture_output=True).returncode == 2


def test_cosign_verifies_what_is_signed(plain: int, tmp_path: Path, image: Content) -> None:
    """Also a key file of cosign's own, and both keys after a rotation."""
    try:
        cosign = later_debian("cosign", "trixie")
    except MissingError as error:
        pytest.skip(f"cosign can't be had here: {error}")
    path = f"{cosign.parent}:{os.environ['PATH']}"
    environ = {"COSIGN_PASSWORD": "secret", "HOME": str(tmp_path), "PATH": path}
    subprocess.run([cosign, "generate-key-pair"], cwd=tmp_path, env={**os.environ, **environ}, check=True)
    subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tmp_path / "new.pem"], check=True
    )
    subprocess.run(
        ["openssl", "pkey", "-in", tmp_path / "new.pem", "-pubout", "-out", tmp_path / "new.pub"], check=True
    )
    reference = f"127.0.0.1:{plain}/slipway@{image.digest}"
    build(
        "push",
        image.layout.folder,
        "--registry",
        f"127.0.0.1:{plain}",
        "--key",
        tmp_path / "cosign.key",
        environ=environ,
    )
    build("sign", reference, "--key", tmp_path / "new.pem", "--attest")
    for key in ("cosign.pub", "new.pub"):
        options = ["--key", str(tmp_path / key), "--insecure-ignore-tlog", "--allow-insecure-registry"]
        subprocess.run([cosign, "verify", *options, reference], env={**os.environ, **environ}, check=True)
        for kind in ("slsaprovenance1", "spdxjson", "cyclonedx"):
            words = [cosign, "verify-attestation", *options, "--type", kind, reference]
            subprocess.run(words, env={**os.environ, **environ}, check=True, stdout=subprocess.DEVNULL)
        build("verify", "--registry", reference, "--key", tmp_path / key, "--no-rebuild")


def test_two_pushed_images_are_compared(plain: int, tmp_path: Path, image: Content) -> None:
    """Real layers, so that they can be read: one file each, and one that differs."""
    references = []
    for version in ("1", "2"):
        folder = tmp_path / f"real{version}"
        labels = {
            **real_labels(),
            "io.slipway.version.ray": f"2.6{version}.0",
            "io.slipway.lock": f"sha256:{version * 64}",
        }
        real_layout(folder, {"opt/same": b"same", "opt/other": version.encode()}, labels)
        build("push", folder, "--registry", f"127.0.0.1:{plain}", "--attest", "none", "--no-moving")
        references.append(f"127.0.0.1:{plain}/slipway@{read_content(folder).digest}")
    notes = build("diff", *references, "--markdown", "--cache", tmp_path / "cache").stdout
    assert "2.61.0" in notes and "2.62.0" in notes and "|" in notes
