"""No pod asks for more than it needs; what an overlay takes on top is written down here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.deploy import manifests, policy
from tests.deploy.manifests import Variant

ROOT_WORKERS = {
    "privileged": {"privileged", "may gain rights", "keeps capabilities", "may be root"},
    "ipc-lock": {"adds capabilities", "may be root"},
}
"""Overlay or component → what its GPU pods may break. Its head may break nothing."""

TOKEN = {"pd-autoscaling": {"head"}}
"""The autoscaler beside the head asks Kubernetes for pods."""


def allowed(variant: Variant, pod: str) -> set[str]:
    found = {"has a token"} if pod in TOKEN.get(variant.overlay, ()) else set()
    for name in (variant.overlay, *variant.components):
        found |= ROOT_WORKERS.get(name, set()) if pod != "head" else set()
    return found


def test_pods_ask_for_nothing_that_is_not_written_down(variant: Variant) -> None:
    for name, pod in manifests.pods(variant).items():
        assert policy.findings(pod) == allowed(variant, name), name


def test_no_container_is_privileged_outside_the_privileged_overlay() -> None:
    for variant in manifests.VARIANTS:
        for pod in manifests.pods(variant).values():
            found = [c for c in policy.containers(pod) if (c.get("securityContext") or {}).get("privileged")]
            assert not found or variant.overlay == "privileged"


def test_the_autoscaler_beside_the_head_is_held_to_the_same() -> None:
    options = manifests.ray_service(Variant("pd-autoscaling"))["spec"]["rayClusterConfig"]["autoscalerOptions"]
    pod = copy.deepcopy(manifests.pods(Variant("pd"))["head"])
    pod["containers"] = [{"name": "autoscaler", "image": manifests.IMAGE, **options}]
    assert policy.findings(pod) == set()


def test_the_namespace_refuses_what_the_pods_do_not_need(variant: Variant) -> None:
    [namespace] = [one for one in manifests.load(variant) if one["kind"] == "Namespace"]
    level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    roots = {variant.overlay, *variant.components} & set(ROOT_WORKERS)
    assert level == ("privileged" if roots else "restricted")


def test_ingress_is_closed_but_for_what_is_named(variant: Variant) -> None:
    policies = {
        one["metadata"]["name"]: one["spec"] for one in manifests.load(variant) if one["kind"] == "NetworkPolicy"
    }
    assert policies["nothing-by-default"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for rule in policies["ray"]["ingress"]:
        [source] = rule["from"]
        assert source.get("podSelector") or source["namespaceSelector"]["matchLabels"]
        assert "ports" in rule or "namespaceSelector" not in source


BREAKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "privileged": lambda pod: pod["containers"][0]["securityContext"].update(privileged=True),
    "may gain rights": lambda pod: pod["containers"][0]["securityContext"].pop("allowPrivilegeEscalation"),
    "writable root": lambda pod: pod["containers"][0]["securityContext"].pop("readOnlyRootFilesystem"),
    "keeps capabilities": lambda pod: pod["containers"][0]["securityContext"].update(capabilities={"drop": []}),
    "adds capabilities": lambda pod: pod["containers"][0]["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "no digest": lambda pod: pod["containers"][0].update(image="registry.example/slipway:latest"),
    "no limits": lambda pod: pod["containers"][0]["resources"].pop("limits"),
    "no requests": lambda pod: pod["containers"][0]["resources"]["requests"].pop("memory"),
    "may be root": lambda pod: pod["securityContext"].update(runAsUser=0),
    "no seccomp": lambda pod: pod["securityContext"].pop("seccompProfile"),
    "has a token": lambda pod: pod.pop("automountServiceAccountToken"),
    "host's namespaces": lambda pod: pod.update(hostNetwork=True),
    "host's files": lambda pod: pod["volumes"].append({"name": "x", "hostPath": {"path": "/dev"}}),
    "unlimited scratch": lambda pod: pod["volumes"].append({"name": "x", "emptyDir": {}}),
}


@pytest.mark.parametrize("rule", policy.RULES)
def test_each_rule_sees_what_it_is_for(rule: str) -> None:
    pod = copy.deepcopy(manifests.pods(Variant("pd"))["prefill"])
    BREAKS[rule](pod)
    assert policy.findings(pod) == {rule}
