"""Prefill and decode on different nodes. Pure but for `nodes_of_ray`.

Ray has no anti-affinity between deployments. So the nodes are divided when the application is built, and each role
keeps off the other's nodes by a label selector on Ray's own label `ray.io/node-id`. Keeping off, rather than a list of
nodes to be on: a node that is added or replaced later may take either role, and nothing waits for a node that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serve_app.errors import ConfigError, Problem

LABEL = "ray.io/node-id"
COMMON = {"CPU", "GPU", "memory", "object_store_memory"}


@dataclass(frozen=True)
class Node:
    """A living node: Ray's id, what people call it, its resources."""

    node_id: str
    name: str
    resources: dict[str, float]


def nodes_of_ray() -> list[Node]:
    """The cluster's living nodes, by id."""
    import ray

    living = [node for node in ray.nodes() if node["Alive"]]
    found = [Node(node["NodeID"], node.get("NodeManagerHostname", "?"), node["Resources"]) for node in living]
    return sorted(found, key=lambda node: node.node_id)


def apply(args: dict[str, Any], nodes: Sequence[Node], allow_same_node: bool) -> dict[str, Any]:
    """The arguments with selectors in them; as they are where the user has placed a role himself.

    Raises ConfigError naming nodes and resources when the roles can't be kept apart, unless that is allowed.
    """
    roles = ("decode_config", "prefill_config")
    if any(placed_by_user(args[role]) for role in roles):
        return args
    need = {role: (needs(args[role]), replicas(args[role])) for role in roles}
    taken: dict[str, list[Node]] = {}
    free = list(nodes)
    for role in roles:
        per_replica, count = need[role]
        taken[role] = _choose(free, per_replica, count)
        if not taken[role]:
            if allow_same_node:
                return args
            raise ConfigError([Problem(role, _refusal(role, per_replica, count, free, nodes),
                              "add a node, or set kv_transfer.allow_same_node: true")])  # fmt: skip
        free = [node for node in free if node not in taken[role]]
    made = dict(args)
    for role, other in (roles, roles[::-1]):
        selector = {LABEL: f"!in({','.join(node.node_id for node in taken[other])})"}
        deployment = {**args[role].get("deployment_config", {}), "placement_group_bundle_label_selector": [selector]}
        made[role] = {**args[role], "deployment_config": deployment}
    return made


def placed_by_user(config: dict[str, Any]) -> bool:
    """True when the configuration says where its replicas go: a custom resource or a label."""
    deployment = config.get("deployment_config") or {}
    actor = deployment.get("ray_actor_options") or {}
    if deployment.get("placement_group_bundle_label_selector") or actor.get("label_selector") or actor.get("resources"):
        return True
    return any(set(bundle) - COMMON for bundle in _bundles(config))


def _bundles(config: dict[str, Any]) -> list[dict[str, float]]:
    placement = config.get("placement_group_config") or {}
    engine = config.get("engine_kwargs") or {}
    devices = (engine.get("tensor_parallel_size") or 1) * (engine.get("pipeline_parallel_size") or 1)
    on_cpu = (config.get("accelerator_config") or {}).get("kind") == "cpu"
    one = placement.get("bundle_per_worker") or ({"CPU": 1} if on_cpu else {"GPU": 1})
    found: list[dict[str, float]] = placement.get("bundles") or [one] * devices
    return found


def needs(config: dict[str, Any]) -> dict[str, float]:
    """What one replica takes, its own actor's CPU with it."""
    actor = (config.get("deployment_config") or {}).get("ray_actor_options") or {}
    total: dict[str, float] = {"CPU": float(actor.get("num_cpus", 1))}
    for bundle in _bundles(config):
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return {name: amount for name, amount in total.items() if amount}


def replicas(config: dict[str, Any]) -> int:
    """How many there are at least."""
    deployment = config.get("deployment_config") or {}
    scaling = deployment.get("autoscaling_config") or {}
    fixed = deployment.get("num_replicas")
    return max(1, fixed if isinstance(fixed, int) else int(scaling.get("min_replicas") or 1))


def _choose(free: Sequence[Node], per_replica: dict[str, float], count: int) -> list[Node]:
    """The first nodes that together hold `count` replicas; none when there are not enough."""
    chosen: list[Node] = []
    for node in free:
        room = min((int(node.resources.get(name, 0.0) / amount) for name, amount in per_replica.items()), default=count)
        if room > 0:
            chosen.append(node)
            count -= room
            if count <= 0:
                return chosen
    return []


def _refusal(role: str, per_replica: dict[str, float], count: int, free: Sequence[Node], nodes: Sequence[Node]) -> str:
    wanted = ", ".join(f"{name} {amount:g}" for name, amount in sorted(per_replica.items()))
    there = "; ".join(
        f"{node.name}: " + ", ".join(f"{k} {v:g}" for k, v in sorted(node.resources.items()) if k in ("CPU", "GPU"))
        for node in nodes
    )
    left = ", ".join(node.name for node in free) or "none"
    return (
        f"{count} replica(s) of {wanted} each must be on other nodes than the other role's; "
        f"nodes: {there or 'none'}; left for this role: {left}"
    )
