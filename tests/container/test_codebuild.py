"""buildspec.yml, phase by phase as CodeBuild runs it, into a local registry; and the template of its project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slipway.cli import common
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.testing.layouts import incomplete
from slipway.testing.registry import registry
from tests.codebuild.runner import Build, read, run

ROOT = common.ROOT
AWS = """#!/bin/bash
# stands for the aws program: s3://… is a folder
set -e
[ "$1 $2" = "s3 cp" ] || { echo "unknown: $*" >&2; exit 2; }
shift 2
if [ "$1" = --recursive ]; then cp -r "${2/s3:\\/\\//$BUCKETS/}/." "$3"; exit; fi
target=${2/s3:\\/\\//$BUCKETS/}
mkdir -p "$(dirname "$target")"
cp "$1" "$target"
"""
CLEAN = {"SchemaVersion": 2, "Results": [{"Target": "debian"}]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout as CodeBuild makes one: what is committed, and what is changed here."""
    folder = tmp_path / "src"
    subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(folder)], check=True)
    changed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-m", "-o", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in changed.stdout.split():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(Path(sys.prefix), target_is_directory=True)
    return folder


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with registry(tmp_path / "registry") as number:
        yield number


def environment(tmp_path: Path, port: int, report: object = CLEAN) -> dict[str, str]:
    """What the project sets; layers and artifacts are this machine's own, so that nothing is built twice."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "aws").write_text(AWS)
    (tools / "aws").chmod(0o755)
    (tmp_path / "scan.json").write_text(json.dumps(report))
    home = common.cache_home()
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "BUCKETS": str(tmp_path / "s3"),
        "SLIPWAY_DIGESTS": "s3://bucket/digests",
        "SLIPWAY_REGISTRY": f"127.0.0.1:{port}/team",
        "SLIPWAY_SCAN": str(tmp_path / "scan.json"),
        "SLIPWAY_STORE": os.environ.get("SLIPWAY_STORE") or str(home / "store"),
        "SLIPWAY_CACHE": os.environ.get("SLIPWAY_CACHE") or str(home / "layers"),
        "SLIPWAY_KEY": "",
    }


def there(port: int) -> Repository:
    return Repository(parse_reference(f"127.0.0.1:{port}/team/slipway"), Http(environ={}), {})


def succeeded(build: Build) -> bool:
    assert build.succeeded, f"{build.phases}\n{build.ran[-1]}\n{build.output[-4000:]}"
    return True


def test_a_build_pushes_and_the_last_one_moves_the_tags(source: Path, port: int, tmp_path: Path) -> None:
    environ = environment(tmp_path, port)
    first = run(source / "buildspec.yml", source, environ, tmp_path / "log")
    assert succeeded(first)
    assert set(first.phases.values()) == {"SUCCEEDED"}
    names = {path.name for path in first.artifacts}
    assert {"digest.json", "sbom.spdx.json", "sbom.cdx.json", "audit.json", "plan.json", "image.json"} <= names
    digest = json.loads((source / "out/pipeline/digest.json").read_text())["images"][0]["digest"]
    assert first.exported == {"SLIPWAY_DIGEST": digest}
    repository = there(port)
    assert repository.manifest_digest(digest) == digest and repository.manifest_digest("2.60-cpu") is None
    last = run(source / "deploy/codebuild/finish.yml", source, environ, tmp_path / "log2")
    assert succeeded(last)
    assert repository.manifest_digest("2.60-cpu") == digest
    assert not incomplete(repository)


def test_a_failed_gate_pushes_nothing(source: Path, port: int, tmp_path: Path) -> None:
    environ = environment(tmp_path, port, {"SchemaVersion": 2})
    build = run(source / "buildspec.yml", source, environ, tmp_path / "log")
    assert not build.succeeded
    assert build.phases == {"install": "SUCCEEDED", "pre_build": "SUCCEEDED", "build": "FAILED", "post_build": "FAILED"}
    assert "no vulnerability data" in build.output and "nothing is pushed" in build.output
    assert [code for command, code in build.ran if command.startswith("ls -l")] == [0]  # the finally block
    assert build.exported == {"SLIPWAY_DIGEST": ""}
    assert "audit.json" in {path.name for path in build.artifacts}
    assert there(port).manifest_digest("2.60-cpu") is None


def test_a_stale_lock_stops_before_the_build(source: Path, port: int, tmp_path: Path) -> None:
    pins = source / "versions.toml"
    pins.write_text(pins.read_text().replace('virtualenv = "*"', 'virtualenv = "==20.1"'))
    build = run(source / "buildspec.yml", source, environment(tmp_path, port), tmp_path / "log")
    assert build.phases == {"install": "SUCCEEDED", "pre_build": "FAILED", "build": "SKIPPED", "post_build": "SKIPPED"}


def test_the_batch_covers_every_locked_image_and_finishes_after_all() -> None:
    graph = read(ROOT / "buildspec.yml")["batch"]["build-graph"]
    builds = [node for node in graph if node["identifier"] != "finish"]
    (finish,) = [node for node in graph if node["identifier"] == "finish"]
    assert sorted(finish["depend-on"]) == sorted(node["identifier"] for node in builds)
    assert read(ROOT / finish["buildspec"])
    made = {
        (node["env"]["variables"]["SLIPWAY_RELEASE"], node["env"]["variables"]["SLIPWAY_VARIANT"]) for node in builds
    }
    locks = {tuple(path.stem.rsplit("-", 1)[0].rsplit("-", 1)) for path in (ROOT / "locks").glob("*-amd64.toml")}
    assert made == locks
    privileged = {node["identifier"] for node in builds if node["env"].get("privileged-mode")}
    with_containers = {n["identifier"] for n in builds if n["env"]["variables"].get("SLIPWAY_TEST") == "1"}
    assert privileged == with_containers


def test_the_template_is_sound() -> None:
    program = Path(sys.prefix) / "bin" / "cfn-lint"
    if not program.exists():
        pytest.skip("cfn-lint is not installed (requirements/test.txt has it)")
    done = subprocess.run([program, str(ROOT / "deploy/codebuild/project.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (ROOT / "deploy/codebuild/project.yml").read_text()
    assert "PrivilegedMode: false" in text
    assert not any(word in text for word in ("AccessKey", "SecretAccessKey", "AdministratorAccess"))


def test_no_long_lived_key_in_any_pipeline() -> None:
    for name in ("buildspec.yml", "deploy/codebuild/finish.yml", "deploy/github/build.yml"):
        document = yaml.safe_load((ROOT / name).read_text())
        assert "AWS_SECRET_ACCESS_KEY" not in json.dumps(document) and "AWS_ACCESS_KEY_ID" not in json.dumps(document)
