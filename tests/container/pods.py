"""Runs a Kubernetes pod's containers with Docker: same command, user, rights, environment, volumes and probes.

What a pod has and this has not: the limit on cores, cluster DNS (a line in /etc/hosts instead), NetworkPolicy.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.container.docker import Container, Docker
from tests.deploy import kuberay
from tests.deploy.kuberay import Pod

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Running:
    """A started pod. ip: of its main container, on the engine's bridge."""

    pod: Pod
    container: Container
    ip: str

    def get(self, port: int, path: str, timeout: float = 30) -> tuple[int, str]:
        """Status and body, asked from outside the pod as the kubelet and other pods do; 0 for no answer."""
        return http("GET", f"http://{self.ip}:{port}{path}", timeout=timeout)

    def probe(self, kind: str) -> bool:
        """One try of livenessProbe or readinessProbe."""
        probe = self.pod.main[kind]
        if "httpGet" in probe:
            return self.get(probe["httpGet"]["port"], probe["httpGet"]["path"], probe["timeoutSeconds"])[0] == 200
        return self.execute(probe["exec"]["command"], probe["timeoutSeconds"])

    def execute(self, command: Sequence[str], timeout: float) -> bool:
        """A command in the main container, as an exec probe runs it."""
        words = ("timeout", str(timeout), *command)
        return self.container.exec(*words, check=False, timeout=timeout + 30).code == 0

    def sent(self) -> int:
        """Bytes that have left the pod's interface."""
        return int(self.container.exec("cat", "/sys/class/net/eth0/statistics/tx_bytes").out)


def http(method: str, url: str, data: bytes | None = None, timeout: float = 30) -> tuple[int, str]:
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
    try:
        with OPENER.open(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, repr(error)


@contextlib.contextmanager
def started(docker: Docker, pods: Sequence[Pod], folder: Path, hosts: dict[str, str]) -> Iterator[list[Running]]:
    """The pods' init containers to their end, then their main containers. hosts: names → addresses, added to.

    A head's Service name is added once it has an address, so it must come first.
    """
    with contextlib.ExitStack() as stack:
        running: list[Running] = []
        for pod in pods:
            volumes = {volume["name"]: _volume(folder / pod.name, volume) for volume in pod.spec["volumes"]}
            stack.callback(_empty, docker, [path for path in volumes.values() if path])
            for container in pod.spec.get("initContainers") or ():
                docker.run(*_words(container), options=_options(pod, container, volumes, hosts), timeout=300)
            options = _options(pod, pod.main, volumes, hosts)
            made = stack.enter_context(docker.started(*_words(pod.main), options=options))
            running.append(Running(pod, made, _address(made)))
            if pod.head:
                hosts[pod.service] = running[-1].ip
        yield running


def _volume(folder: Path, volume: dict[str, Any]) -> Path | None:
    """A folder for an emptyDir, open to all as the kubelet makes it; None for one in memory at /dev/shm."""
    if volume["emptyDir"].get("medium") == "Memory":
        return None
    path = folder / volume["name"]
    path.mkdir(parents=True)
    path.chmod(0o777)
    return path


def _words(container: dict[str, Any]) -> list[str]:
    return [*container["command"], *(container.get("args") or ())]


def _options(pod: Pod, container: dict[str, Any], volumes: dict[str, Path | None], hosts: dict[str, str]) -> list[str]:
    """`docker run`'s words for a container's settings. An unknown setting is an error, not something left out."""
    rights, user = container["securityContext"], pod.spec["securityContext"]
    if unknown := set(rights) - {"privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}:
        raise NotImplementedError(f"securityContext: {sorted(unknown)}")
    words = ["--entrypoint", "", "--user", f"{user['runAsUser']}:{user['runAsGroup']}", "--workdir", "/home/ray"]
    words += ["--privileged"] if rights["privileged"] else []
    words += [] if rights["allowPrivilegeEscalation"] else ["--security-opt", "no-new-privileges"]
    words += ["--read-only"] if rights["readOnlyRootFilesystem"] else []
    words += [f"--cap-drop={name}" for name in rights["capabilities"]["drop"]]
    words += ["--memory", str(int(kuberay.quantity(container["resources"]["limits"]["memory"])))]
    # No cluster DNS: names stand in /etc/hosts. gRPC asks a name server for the other kind of address nevertheless, and
    # gives up when that one is silent; one that is not there says so at once.
    words += ["--dns", "127.0.0.1"]
    for name, address in hosts.items():
        words += ["--add-host", f"{name}:{address}"]
    for entry in container.get("env") or ():
        if "value" in entry:
            words += ["--env", f"{entry['name']}={entry['value']}"]
        elif not entry["valueFrom"].get("secretKeyRef", {}).get("optional"):
            raise NotImplementedError(f"environment: {entry}")
    sizes = {volume["name"]: volume["emptyDir"].get("sizeLimit") for volume in pod.spec["volumes"]}
    for mount in container["volumeMounts"]:
        path = volumes[mount["name"]]
        if path is None:
            words += ["--shm-size", str(int(kuberay.quantity(sizes[mount["name"]])))]
        else:
            words += ["--volume", f"{path}:{mount['mountPath']}"]
    return words


def _address(container: Container) -> str:
    networks = json.loads(
        container.engine.docker("inspect", "-f", "{{json .NetworkSettings.Networks}}", container.name).out
    )
    [network] = networks.values()
    return str(ipaddress.ip_address(network["IPAddress"]))


def _empty(docker: Docker, folders: Sequence[Path]) -> None:
    """Files in the volumes belong to the image's user: a container takes them away."""
    mounts = [word for number, path in enumerate(folders) for word in ("--volume", f"{path}:/v/{number}")]
    script = "find /v -mindepth 2 -delete"
    docker.run("sh", "-c", script, options=("--entrypoint", "", "--user", "0:0", *mounts), check=False)


def until(what: str, check: Callable[[], bool], running: Sequence[Running], timeout: float) -> float:
    """Waits; the seconds it took. Fails with the logs when it takes too long or a container has ended."""
    start = time.monotonic()
    while not check():
        for one in running:
            state = one.container.state()
            assert state["Running"], f"{one.pod.name} ended ({state['ExitCode']}):\n{one.container.logs(60)}"
        if time.monotonic() - start > timeout:
            logs = "\n".join(f"--- {one.pod.name}\n{one.container.logs(60)}" for one in running)
            raise AssertionError(f"not within {timeout} s: {what}\n{logs}")
        time.sleep(2)
    return time.monotonic() - start
