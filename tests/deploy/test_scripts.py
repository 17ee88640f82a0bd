"""preflight, up and down with programs that only write down how they were called."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy import manifests
from tests.deploy.manifests import EKS, Variant

FAKE = """#!/bin/bash
echo "${0##*/} $*" >> "$CALLS"
if [[ "${0##*/}" =~ ^(kubectl|helm)$ && "$1" != kustomize ]]; then
    echo "${KUBECONFIG:-the current context}" >> "$CALLS.asked"
fi
[ "${0##*/}" != kubectl ] || [[ "$1" != kustomize ]] || exec "$REAL_KUBECTL" "$@"
[ -t 0 ] || [[ "$*" != *"-f -"* ]] || cat >> "$CALLS.stdin"
while IFS='|' read -r words code answer; do
    if [[ "${0##*/} $*" == *"$words"* ]]; then printf '%b' "$answer"; exit "$code"; fi
done <<< "$ANSWERS"
"""

GOOD = {
    "aws sts": "0|arn:aws:iam::1:user/somebody",
    "describe-instance-type-offerings": "0|offered",
    "EfaSupported": "0|True",
    "describe-cluster-versions": "0|1.35",
    "get-service-quota": "0|64.0",
    "aws eks describe-cluster --name": "1|no such cluster",
}


@dataclass
class Tools:
    """A folder of fake programs on PATH, and what was called."""

    folder: Path

    def run(self, script: str, *words: str, answers: Mapping[str, str] = GOOD, **changes: str) -> tuple[int, str]:
        """Exit code and stderr. A program can be told what to print: words of the call → `code|output`."""
        (self.folder / "calls").write_text("")
        listed = "\n".join(f"{call}|{answer}" for call, answer in answers.items())
        values = {name: value for name, value in {**manifests.example(), **changes}.items() if value}
        environment = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "CALLS": str(self.folder / "calls"),
            "REAL_KUBECTL": manifests.kubectl(),
            "ANSWERS": listed,
            **values,
        }
        done = subprocess.run([str(EKS / script), *words], env=environment, capture_output=True, text=True)
        return done.returncode, done.stderr

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    manifests.text(Variant("pd"))  # skips where a real program is missing
    (tmp_path / "bin").mkdir()
    for name in ("aws", "eksctl", "kubectl", "helm"):
        path = tmp_path / "bin" / name
        path.write_text(FAKE)
        path.chmod(0o755)
    return Tools(tmp_path)


def test_preflight_is_content(tools: Tools) -> None:
    code, said = tools.run("preflight")
    assert code == 0, said
    assert "nothing stands in the way" in said


def test_preflight_changes_nothing(tools: Tools) -> None:
    tools.run("preflight")
    assert tools.calls
    assert all(call.split()[2].startswith(("get-", "describe-")) for call in tools.calls), tools.calls


@pytest.mark.parametrize(
    ("call", "answer", "told"),
    [
        ("get-service-quota", "0|32.0", "32 vCPUs, needed are 64"),
        ("get-service-quota", "1|AccessDenied", "could not be asked: AccessDenied"),
        ("describe-instance-type-offerings", "0|None", "the zone does not offer it"),
        ("EfaSupported", "0|False", "it has none"),
        ("aws sts", "1|token expired", "credentials: token expired"),
        ("describe-cluster-versions", "0|None", "EKS does not offer it"),
        ("aws eks describe-cluster --name", "0|{}", "there is a cluster"),
    ],
)
def test_preflight_sees_what_the_account_lacks(tools: Tools, call: str, answer: str, told: str) -> None:
    code, said = tools.run("preflight", answers={**GOOD, call: answer})
    assert code == 3
    assert told in said


def test_preflight_sees_a_missing_program(tools: Tools) -> None:
    (tools.folder / "bin" / "eksctl").unlink()
    code, said = tools.run("preflight")
    assert code == 3
    assert "the program eksctl" in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"IMAGE": "registry.example/slipway:2.60-cuda"}, "IMAGE must be a digest"),
        ({"ZONE": "eu-west-1a"}, "not in us-east-2"),
        ({"SECOND_ZONE": "us-east-2a"}, "EKS wants two"),
        ({"GPU_VCPUS": "many"}, "GPU_VCPUS must be a number"),
        ({"MODEL_ID": ""}, "MODEL_ID is not set"),
    ],
)
def test_preflight_sees_wrong_values_before_it_asks_anybody(tools: Tools, change: dict[str, str], told: str) -> None:
    code, said = tools.run("preflight", **change)
    assert code == 2
    assert told in said
    assert tools.calls == []


def test_up_creates_nothing_when_preflight_objects(tools: Tools) -> None:
    code, _ = tools.run("up", "pd", answers={**GOOD, "get-service-quota": "0|0.0"})
    assert code == 3
    assert not [call for call in tools.calls if call.startswith(("eksctl", "helm", "kubectl -n", "kubectl apply"))]


def test_up_goes_in_order_and_leaves_nothing_open(tools: Tools) -> None:
    code, said = tools.run("up", "pd", "monitoring")
    assert code == 0, said
    order = ["eksctl create cluster", "helm upgrade --install aws-efa", "helm upgrade --install kuberay-operator",
             "kubectl apply -f -", "kubectl -n slipway wait rayservice/llm"]  # fmt: skip
    places = [max(index for index, call in enumerate(tools.calls) if call.startswith(words)) for words in order]
    assert places == sorted(places)
    given = Path(f"{tools.folder}/calls.stdin").read_text()
    assert "kind: ClusterConfig" in given
    assert "kind: RayService" in given
    assert "${" not in given.partition("grafana_dashboard")[0]


HERE = {"aws eks describe-cluster --name": "0|{}"}


def test_down_takes_volumes_and_balancers_before_the_cluster(tools: Tools) -> None:
    services = {"kubectl get services": "0|web front\\n"}
    code, said = tools.run("down", answers={**HERE, **services})
    assert code == 0, said
    order = [
        "delete rayservice llm",
        "delete service front",
        "delete pvc --all",
        "eksctl delete cluster --name slipway",
    ]
    places = [next(index for index, call in enumerate(tools.calls) if words in call) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ["list-stacks", "describe-volumes", "describe-nat-gateways", "describe-addresses",
                                  "describe-instances", "resourcegroupstaggingapi"])  # fmt: skip
def test_down_names_what_goes_on_costing(tools: Tools, kind: str) -> None:
    code, said = tools.run("down", answers={**HERE, kind: "0|thing-1"})
    assert code == 1
    assert "thing-1" in said


@pytest.mark.parametrize(("script", "words"), [("down", ()), ("up", ("pd",))])
def test_only_this_cluster_is_asked(tools: Tools, script: str, words: tuple[str, ...]) -> None:
    """Whatever kubectl's current context is: down deletes balancers in every namespace."""
    code, said = tools.run(script, *words, answers=HERE if script == "down" else GOOD)
    assert code == 0, said
    [made] = [call for call in tools.calls if call.startswith("aws eks update-kubeconfig --name slipway")]
    asked = set(Path(f"{tools.folder}/calls.asked").read_text().split("\n")) - {""}
    assert asked == {made.split()[-1]}
    assert not Path(made.split()[-1]).exists(), "it is left behind"


def test_down_deletes_nothing_where_it_has_no_way_to_the_cluster(tools: Tools) -> None:
    code, said = tools.run("down", answers={**HERE, "update-kubeconfig": "1|"})
    assert code == 1
    assert "nothing was deleted" in said
    assert not [call for call in tools.calls if "delete" in call]


def test_down_does_not_take_a_refusal_for_a_cluster_that_is_gone(tools: Tools) -> None:
    code, said = tools.run("down", answers={"aws eks describe-cluster --name": "1|ExpiredToken"})
    assert code == 1
    assert "could not be asked for, and was not deleted: ExpiredToken" in said
    assert not [call for call in tools.calls if "delete" in call]


GONE = "1|An error occurred (ResourceNotFoundException) when calling the DescribeCluster operation"


def test_down_can_run_again(tools: Tools) -> None:
    code, said = tools.run("down", answers={"aws eks describe-cluster --name": GONE})
    assert code == 0
    assert "there is no cluster" in said
    assert not [call for call in tools.calls if call.startswith(("eksctl", "kubectl"))]
