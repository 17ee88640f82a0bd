"""The commands that our stand-in for the operator makes, as KubeRay 1.7 makes them."""

from __future__ import annotations

import pytest

from tests.deploy import kuberay, manifests
from tests.deploy.manifests import Variant


def made(login_shell: bool = False) -> dict[str, kuberay.Pod]:
    return {pod.name: pod for pod in kuberay.pods(manifests.ray_service(Variant("pd")), login_shell)}


def test_the_heads_command() -> None:
    assert made()["head"].main["command"] == ["/bin/bash", "-c", "--"]
    [command] = made()["head"].main["args"]
    assert " ".join(command.split()) == (
        "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start --head --block "
        "--dashboard-agent-listen-port=52365 --dashboard-host=0.0.0.0 --memory=8589934592 "
        "--metrics-export-port=8080 --num-cpus=0 --num-gpus=0"
    )


def test_a_workers_command() -> None:
    [command] = made()["prefill"].main["args"]
    assert "ray start  --address=llm-head-svc.slipway.svc.cluster.local:6379  --block" in command
    assert "--num-cpus=24  --num-gpus=1  --resources='{\"prefill\": 1}'" in command


def test_the_login_shell_of_older_operators() -> None:
    assert made(login_shell=True)["decode"].main["command"] == ["/bin/bash", "-cl", "--"]


def test_probes_are_ours_where_we_have_some() -> None:
    worker, head = made()["decode"].main, made()["head"].main
    assert "/ready" in worker["readinessProbe"]["exec"]["command"][-1]
    assert worker["livenessProbe"]["httpGet"] == {"path": "/api/healthz", "port": 52365}
    assert head["readinessProbe"]["httpGet"] == {"path": "/api/healthz", "port": 52365}


def test_the_probe_that_kuberay_would_make() -> None:
    command = kuberay.probes(head=False, ray_version="2.60.0")["readinessProbe"]["exec"]["command"][-1]
    assert command == (
        "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success && "
        "wget --tries 1 -T 10 -q -O- http://localhost:8000/-/healthz | grep success"
    )


@pytest.mark.parametrize(("text", "value"), [("500m", 0.5), ("2", 2), ("8Gi", 8 * 2**30), ("1k", 1000)])
def test_quantities(text: str, value: float) -> None:
    assert kuberay.quantity(text) == value


def test_workers_wait_for_the_head_last() -> None:
    """Our own init containers run before it, as KubeRay appends its own."""
    pods = kuberay.pods(manifests.ray_service(Variant("trial-cpu")))
    assert [c["name"] for c in pods[1].spec["initContainers"]] == ["demo-model", "wait-gcs-ready"]
