"""What no pod of ours may ask for, as rules of a line each. Pure: a pod's spec in, findings out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Spec = dict[str, Any]
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def containers(pod: Spec) -> list[Spec]:
    return [*(pod.get("initContainers") or ()), *pod["containers"]]


def _each(rule: Callable[[Spec, Spec], bool]) -> Callable[[Spec], Iterator[str]]:
    """A rule on a container's security context and the container: the names of those that break it."""

    def check(pod: Spec) -> Iterator[str]:
        for container in containers(pod):
            if rule(container.get("securityContext") or {}, container):
                yield container["name"]

    return check


def _pod(rule: Callable[[Spec], bool]) -> Callable[[Spec], Iterator[str]]:
    def check(pod: Spec) -> Iterator[str]:
        if rule(pod):
            yield "pod"

    return check


def _resources(container: Spec, kind: str) -> Spec:
    found: Spec = (container.get("resources") or {}).get(kind) or {}
    return found


RULES: dict[str, Callable[[Spec], Iterator[str]]] = {
    "privileged": _each(lambda context, _: context.get("privileged") is not False),
    "may gain rights": _each(lambda context, _: context.get("allowPrivilegeEscalation") is not False),
    "writable root": _each(lambda context, _: context.get("readOnlyRootFilesystem") is not True),
    "keeps capabilities": _each(lambda context, _: (context.get("capabilities") or {}).get("drop") != ["ALL"]),
    "adds capabilities": _each(lambda context, _: bool((context.get("capabilities") or {}).get("add"))),
    "no digest": _each(lambda _, container: DIGEST.search(container["image"]) is None),
    "no limits": _each(lambda _, container: not {"cpu", "memory"} <= _resources(container, "limits").keys()),
    "no requests": _each(lambda _, container: not {"cpu", "memory"} <= _resources(container, "requests").keys()),
    "may be root": _pod(
        lambda pod: (
            (pod.get("securityContext") or {}).get("runAsNonRoot") is not True
            or (pod.get("securityContext") or {}).get("runAsUser") in (None, 0)
        )
    ),
    "no seccomp": _pod(
        lambda pod: (pod.get("securityContext") or {}).get("seccompProfile") != {"type": "RuntimeDefault"}
    ),
    "has a token": _pod(lambda pod: pod.get("automountServiceAccountToken") is not False),
    "host's namespaces": _pod(lambda pod: any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))),
    "host's files": _pod(lambda pod: any("hostPath" in volume for volume in pod.get("volumes") or ())),
    "unlimited scratch": _pod(
        lambda pod: any(
            "emptyDir" in volume
            and not volume["emptyDir"].get("sizeLimit")
            and volume["emptyDir"].get("medium") != "HugePages-2Mi"
            for volume in pod.get("volumes") or ()
        )
    ),
}


def findings(pod: Spec) -> set[str]:
    """Names of the rules that a pod breaks."""
    return {name for name, rule in RULES.items() if list(rule(pod))}
