"""env.example names every value that is left open, says what it means, and agrees with the image."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from tests.deploy import manifests
from tests.deploy.manifests import EKS, ROOT, Variant

PLACEHOLDER = re.compile(r"\$\{([A-Za-z_]\w*)\}")
ONLY_SCRIPTS = {"GPU_QUOTA_CODE", "GPU_VCPUS", "KUBERAY_VERSION"}
"""Read by preflight and up."""


def placeholders() -> set[str]:
    return {name for path in EKS.rglob("*.yaml") for name in PLACEHOLDER.findall(path.read_text())}


def test_every_placeholder_is_explained() -> None:
    lines = (EKS / "env.example").read_text().splitlines()
    explained = {line.partition("=")[0] for line in lines if re.match(r"[A-Z]\w*=\S*\s+# \S", line)}
    assert placeholders() | ONLY_SCRIPTS == explained


def test_versions_are_those_of_the_image() -> None:
    pins = tomllib.loads((ROOT / "versions.toml").read_text())
    release = pins["releases"][pins["defaults"]["release"]]
    assert manifests.example()["RAY_VERSION"] == release["wheels"]["ray[serve,llm]"]
    assert manifests.example()["KUBERNETES_VERSION"] == manifests.KUBERNETES


@pytest.mark.parametrize("missing", ["IMAGE", "ZONE"])
def test_render_names_what_is_not_set(missing: str) -> None:
    values = {name: value for name, value in manifests.example().items() if name != missing}
    environment = {"PATH": "/usr/bin:/bin", "KUBECTL": manifests.kubectl(), **values}
    manifests.text(Variant("pd"))  # skips where a program is missing
    done = subprocess.run([str(EKS / "render"), "pd"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert missing in done.stderr


@pytest.mark.parametrize("words", [(), ("nothing",), ("pd", "nothing")])
def test_render_names_what_there_is(words: tuple[str, ...]) -> None:
    manifests.text(Variant("pd"))
    environment = {"PATH": "/usr/bin:/bin", "KUBECTL": manifests.kubectl(), **manifests.example()}
    done = subprocess.run([str(EKS / "render"), *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pd-autoscaling" in done.stderr or "model-cache" in done.stderr
