"""Every manifest of every overlay against the schemas that a cluster would hold it against."""

from __future__ import annotations

import copy
import json
import re

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy import manifests
from tests.deploy.manifests import EKS, KUBERNETES, Manifest, Variant

RAY = "ray.io/v1"
MONITORING = "monitoring.coreos.com/v1"
MONITORS = {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}
ENDPOINT_KEYS = {"port", "path", "interval", "scrapeTimeout"}


def kubernetes_manifests(found: list[Manifest]) -> list[Manifest]:
    return [one for one in found if one["apiVersion"] not in (RAY, MONITORING)]


def test_there_are_the_overlays_that_the_documentation_names() -> None:
    wanted = {"single-node", "tp-two-nodes", "pd", "pd-autoscaling", "pd-many-efa", "onprem-tcp", "privileged"}
    assert wanted <= set(manifests.OVERLAYS)


def test_kubernetes_takes_them(variant: Variant) -> None:
    plain = kubernetes_manifests(manifests.load(variant))
    assert {"Namespace", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"} <= {one["kind"] for one in plain}
    for one in plain:
        kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_kuberay_takes_the_ray_service(variant: Variant) -> None:
    schema = manifests.crd_schema("rayservices")
    jsonschema.Draft7Validator(schema).validate(manifests.ray_service(variant))


def test_kuberay_takes_the_cluster_in_it(variant: Variant) -> None:
    schema = manifests.crd_schema("rayclusters")
    spec = manifests.ray_service(variant)["spec"]["rayClusterConfig"]
    cluster = {"apiVersion": RAY, "kind": "RayCluster", "metadata": {"name": "any"}, "spec": spec}
    jsonschema.Draft7Validator(schema).validate(cluster)


def test_kubernetes_takes_the_pods_in_it(variant: Variant) -> None:
    """The CRD's schema of a pod leaves out what the API server checks after defaulting; Kubernetes' own has it."""
    for template in manifests.templates(manifests.ray_service(variant)).values():
        metadata = {"name": "any", **template["metadata"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_monitors_say_what_the_prometheus_operator_knows(variant: Variant) -> None:
    """Its CRDs are not here, so only the fields in use are looked at."""
    for one in manifests.load(variant):
        if one["apiVersion"] == MONITORING:
            spec = one["spec"]
            assert set(spec) == {"namespaceSelector", "selector", MONITORS[one["kind"]]}
            assert all(set(endpoint) <= ENDPOINT_KEYS for endpoint in spec[MONITORS[one["kind"]]])


def test_nothing_is_left_open(variant: Variant) -> None:
    for one in manifests.load(variant):
        assert one["kind"] == "ConfigMap" or "${" not in json.dumps(one)


def test_monitoring_brings_the_dashboard() -> None:
    [found] = [one for one in manifests.load(Variant("pd", ("monitoring",))) if one["kind"] == "ConfigMap"]
    panels = json.loads(found["data"]["serve_app.json"])["panels"]
    assert len(panels) > 3
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_every_manifest_has_the_namespace(variant: Variant) -> None:
    for one in manifests.load(variant):
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == manifests.example()["NAMESPACE"]


def test_selectors_find_pods(variant: Variant) -> None:
    """A policy or budget whose labels nobody carries does nothing, silently."""
    labels = [
        template["metadata"]["labels"] for template in manifests.templates(manifests.ray_service(variant)).values()
    ]
    for one in manifests.load(variant):
        if one["kind"] in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor"):
            key = "podSelector" if one["kind"] == "NetworkPolicy" else "selector"
            wanted = one["spec"][key].get("matchLabels", {}).items()
            assert any(wanted <= have.items() for have in labels), one["metadata"]["name"]


@pytest.mark.parametrize("change", ["a typo", "a wrong kind", "a missing part"])
def test_the_check_sees(change: str) -> None:
    service = copy.deepcopy(manifests.ray_service(Variant("pd")))
    cluster = service["spec"]["rayClusterConfig"]
    if change == "a typo":
        cluster["workerGroupSpecs"][0]["template"]["spec"]["nodeSelectors"] = {}
    elif change == "a wrong kind":
        cluster["workerGroupSpecs"][0]["replicas"] = "one"
    else:
        del cluster["headGroupSpec"]["template"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(manifests.crd_schema("rayservices")).validate(service)


def test_the_cluster_file_is_whole() -> None:
    """eksctl's schema, where eksctl is (`eksctl utils schema`); elsewhere what can be said without it."""
    values = manifests.example()
    filled = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], (EKS / "cluster" / "cluster.yaml").read_text())
    cluster = yaml.safe_load(filled)
    groups = {group["name"]: group for group in cluster["managedNodeGroups"]}
    assert groups["gpu"]["efaEnabled"] is True
    assert len(groups["gpu"]["availabilityZones"]) == 1
    assert all(group["privateNetworking"] and group["volumeEncrypted"] for group in groups.values())
    assert all(group["availabilityZones"] == [values["ZONE"]] for group in groups.values())


@pytest.mark.parametrize("path", sorted(EKS.glob("cluster/*.values.yaml")), ids=lambda path: path.name)
def test_helm_values_are_yaml(path: object) -> None:
    assert isinstance(yaml.safe_load(EKS.joinpath("cluster", str(getattr(path, "name", path))).read_text()), dict)
