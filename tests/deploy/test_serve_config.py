"""The application inside a RayService goes through the builder's own checks, as it would on the cluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.deploy import manifests
from tests.deploy.manifests import Variant

document = pytest.importorskip("serve_app.config.document")


def application(variant: Variant) -> dict[str, Any]:
    """Raises ConfigError with every problem."""
    from serve_app.config import forms

    text = manifests.ray_service(variant)["spec"]["serveConfigV2"]
    # A folder in the pod is none on this machine.
    plan = forms.plan(document.parse(text.replace("/cache/demo", "demo"), str(variant)))
    [found] = plan.applications
    return found


def resolved(variant: Variant) -> Any:
    """The P/D arguments, completed for the pods' hardware. The CPU says so itself."""
    from serve_app.pd.resolve import resolve

    return resolve(application(variant)["args"], "gpu", efa=True)


def is_pd(variant: Variant) -> bool:
    return variant.overlay not in ("single-node", "tp-two-nodes")


pd_variants = pytest.mark.parametrize("variant", [one for one in manifests.VARIANTS if is_pd(one)], ids=str)


def test_it_is_valid(variant: Variant) -> None:
    found = application(variant)
    assert found["import_path"] == ("serve_app:build_pd_app" if is_pd(variant) else "serve_app:build_app")
    if is_pd(variant):
        resolved(variant)
    else:
        from serve_app.app.single import resolve

        resolve(found["args"])


@pd_variants
def test_kv_travels_as_the_pods_devices_allow(variant: Variant) -> None:
    args = resolved(variant).args
    for role in ("prefill", "decode"):
        transfer = args[f"{role}_config"]["engine_kwargs"]["kv_transfer_config"]
        pod = manifests.pods(variant)[role]["containers"][0]
        efa = "vpc.amazonaws.com/efa" in pod["resources"]["limits"]
        assert transfer["kv_connector_extra_config"]["backends"] == (["LIBFABRIC"] if efa else ["UCX"])


@pd_variants
def test_each_role_asks_for_what_its_group_has(variant: Variant) -> None:
    """Ray waits for ever for a resource that no node offers; then nothing says why."""
    groups = {g["groupName"]: g for g in manifests.ray_service(variant)["spec"]["rayClusterConfig"]["workerGroupSpecs"]}
    for role in ("prefill", "decode"):
        config = resolved(variant).args[f"{role}_config"]
        placement = config["placement_group_config"]
        many = config["engine_kwargs"].get("tensor_parallel_size", 1)
        bundles = placement.get("bundles") or [placement["bundle_per_worker"]] * many
        offered = yaml.safe_load(groups[role]["rayStartParams"]["resources"].strip("'"))
        limits = groups[role]["template"]["spec"]["containers"][0]["resources"]["limits"]
        wanted = {name: sum(bundle.get(name, 0) for bundle in bundles) for name in ("GPU", "CPU", role)}
        assert 0 < wanted[role] <= offered[role]
        assert wanted["GPU"] <= int(limits.get("nvidia.com/gpu", 0))
        assert wanted["CPU"] + 2 <= int(groups[role]["rayStartParams"].get("num-cpus") or limits["cpu"])


@pd_variants
def test_replicas_fit_the_groups(variant: Variant) -> None:
    groups = {g["groupName"]: g for g in manifests.ray_service(variant)["spec"]["rayClusterConfig"]["workerGroupSpecs"]}
    for role in ("prefill", "decode"):
        deployment = resolved(variant).args[f"{role}_config"]["deployment_config"]
        scaling = deployment.get("autoscaling_config") or {}
        most = scaling.get("max_replicas") or deployment["num_replicas"]
        assert most <= groups[role]["maxReplicas"]
        assert bool(scaling) == bool(
            manifests.ray_service(variant)["spec"]["rayClusterConfig"].get("enableInTreeAutoscaling")
        )


def test_a_wrong_key_is_seen() -> None:
    from serve_app.config import forms
    from serve_app.errors import ConfigError

    text = manifests.ray_service(Variant("pd"))["spec"]["serveConfigV2"].replace("fabric: efa", "fabrik: efa")
    with pytest.raises(ConfigError):
        forms.plan(document.parse(text, "broken"))
