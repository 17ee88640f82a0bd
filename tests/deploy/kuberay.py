"""What KubeRay 1.7 makes of a RayService's pod templates, as far as it can be seen from outside the operator.

Written from its source (ray-operator/controllers/ray/common/pod.go, utils/constant.go at v1.7.0): the shell command
with `ray start`, the environment, the init container that waits for the head, the probes. Pure.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

GCS, DASHBOARD, AGENT, SERVE, METRICS = 6379, 8265, 52365, 8000, 8080
ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"
WGET = "wget --tries 1 -T {seconds} -q -O- http://localhost:{port}/{path} | grep success"
SPELT_OUT = ("log-color", "include-dashboard", "include-log-monitor")
"""Flags of `ray start` that take true and false; other booleans are given or left away."""

UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4}


@dataclass(frozen=True)
class Pod:
    """name: the group's. spec: as the API server gets it. service: the fully qualified name of the head's Service."""

    name: str
    spec: dict[str, Any]
    head: bool
    service: str

    @property
    def main(self) -> dict[str, Any]:
        found: dict[str, Any] = self.spec["containers"][0]
        return found


def pods(service: dict[str, Any], login_shell: bool = False) -> list[Pod]:
    """The pods of a RayService with one replica a group, head first. login_shell: the operator's ENABLE_LOGIN_SHELL."""
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    cluster = service["spec"]["rayClusterConfig"]
    fqdn = f"{name}-head-svc.{namespace}.svc.cluster.local"
    groups = [("head", cluster["headGroupSpec"]), *((g["groupName"], g) for g in cluster.get("workerGroupSpecs") or ())]
    return [_pod(group, spec, fqdn, cluster["rayVersion"], login_shell) for group, spec in groups]


def _pod(name: str, group: dict[str, Any], fqdn: str, ray_version: str, login_shell: bool) -> Pod:
    head = name == "head"
    spec = copy.deepcopy(group["template"]["spec"])
    container = spec["containers"][0]
    command = f"{ULIMIT}; {ray_start(group.get('rayStartParams') or {}, container.get('resources') or {}, head, fqdn)}"
    own = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    container["command"] = ["/bin/bash", "-cl" if login_shell else "-c", "--"]
    container["args"] = [f"{own} && {command}" if own else command]
    container["env"] = [*(container.get("env") or ()), *environment(head, fqdn)]
    for kind, made in probes(head, ray_version).items():
        container.setdefault(kind, made)
    if not head:
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _wait_for_gcs(container, fqdn)]
    return Pod(name, spec, head, fqdn)


def ray_start(params: dict[str, str], resources: dict[str, Any], head: bool, fqdn: str) -> str:
    """`ray start …` with what KubeRay adds to rayStartParams."""
    full = {"metrics-export-port": str(METRICS), "dashboard-agent-listen-port": str(AGENT), **params, "block": "true"}
    full.setdefault(*(("dashboard-host", "0.0.0.0") if head else ("address", f"{fqdn}:{GCS}")))
    limits = resources.get("limits") or {}
    if "cpu" in limits or "cpu" in (resources.get("requests") or {}):
        full.setdefault("num-cpus", str(-int(-quantity(limits.get("cpu") or resources["requests"]["cpu"]) // 1)))
    if "memory" in limits:
        full.setdefault("memory", str(int(quantity(limits["memory"]))))
    for name in sorted(limits):
        if name.endswith("gpu"):
            full.setdefault("num-gpus", str(int(quantity(limits[name]))))
    words = []
    for flag, value in sorted(full.items()):
        if value.lower() in ("true", "false") and flag not in SPELT_OUT:
            words += [f"--{flag}"] if value.lower() == "true" else []
        else:
            words.append(f"--{flag}={value}")
    return f"ray start {'--head ' if head else ''} {'  '.join(words)} "


def quantity(text: str) -> float:
    """A Kubernetes quantity, e.g. 500m, 2, 8Gi."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    if found is None:
        raise ValueError(f"no quantity: {text}")
    return float(found[1]) / 1000 if found[2] == "m" else float(found[1]) * UNITS[found[2]]


def environment(head: bool, fqdn: str) -> list[dict[str, str]]:
    """What it sets for pods of a RayService, without what names a pod."""
    ip = "127.0.0.1" if head else fqdn
    values = {
        **({} if head else {"FQ_RAY_IP": fqdn, "RAY_IP": fqdn.partition(".")[0]}),
        "RAY_PORT": str(GCS),
        "RAY_timeout_ms_task_wait_for_death_info": "0",
        "RAY_gcs_server_request_timeout_seconds": "5",
        "RAY_SERVE_KV_TIMEOUT_S": "5",
        "RAY_ADDRESS": f"{ip}:{GCS}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def probes(head: bool, ray_version: str) -> dict[str, Any]:
    """Liveness and readiness where the template has none. From Ray 2.53 on one HTTP path says how a node is."""
    unified = tuple(int(part) for part in ray_version.split(".")[:2]) >= (2, 53)
    raylet = WGET.format(seconds=2, port=AGENT, path="api/local_raylet_healthz")
    commands = [raylet, WGET.format(seconds=10, port=DASHBOARD, path="api/gcs_healthz")] if head else [raylet]
    http = {"httpGet": {"path": "/api/healthz", "port": AGENT}}
    plain = http if unified else {"exec": {"command": ["bash", "-c", " && ".join(commands)]}}
    serve = WGET.format(seconds=10, port=SERVE, path="-/healthz")
    ready = plain if head else {"exec": {"command": ["bash", "-c", " && ".join([*commands, serve])]}}
    timing = {"initialDelaySeconds": 10, "periodSeconds": 5, "timeoutSeconds": 5 if head else 2}
    return {"livenessProbe": {**plain, **timing}, "readinessProbe": {**ready, **timing}}


def _wait_for_gcs(container: dict[str, Any], fqdn: str) -> dict[str, Any]:
    small = {"cpu": "200m", "memory": "256Mi"}
    return {
        "name": "wait-gcs-ready",
        "image": container["image"],
        "command": container["command"],
        "args": [f"until ray health-check --address {fqdn}:{GCS}; do sleep 5; done"],
        "securityContext": container.get("securityContext") or {},
        "env": container["env"],
        "volumeMounts": container.get("volumeMounts") or [],
        "resources": {"limits": small, "requests": small},
    }
