"""`build.py verify --registry` with all that it does: papers, signature, and the whole image built again from nothing.

Minutes, so only where it is wanted: SLIPWAY_TEST_REBUILD=1.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from slipway.testing.registry import registry
from tests.container.test_push import build

WANTED = "SLIPWAY_TEST_REBUILD"


@pytest.mark.skipif(not os.environ.get(WANTED), reason=f"a whole build, minutes: set {WANTED}=1")
def test_a_pushed_image_is_proven_by_building_it_again(tmp_path: Path) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "key.pub"
    words = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private]
    subprocess.run(words, check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    with registry(tmp_path / "registry") as port:
        where = ("--registry", f"127.0.0.1:{port}", "--digest-file", tmp_path / "pushed.json")
        build("build", "--output", tmp_path / "image", "--push", *where, "--key", private, timeout=1200)
        [image] = json.loads((tmp_path / "pushed.json").read_text())["images"]
        reference = f"127.0.0.1:{port}/slipway@{image['digest']}"
        begun = time.monotonic()
        said = build("verify", "--registry", reference, "--key", public, "--json", timeout=1200).stdout
        print(f"verified in {time.monotonic() - begun:.0f} s")
    found = json.loads(said)
    assert found["verified"]
    states = {check["name"]: check["state"] for check in found["checks"]}
    assert set(states.values()) == {"right"}
    assert {"signature", "provenance", "SBOM (SPDX)", "SBOM (CycloneDX)", "build again"} <= set(states)
