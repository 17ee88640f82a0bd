"""A Ray of one machine that no other node can join: KV never leaves it, and NIXL's side channels needn't be reachable.

The side channel gives an engine's memory layout to whoever connects, without a password (vLLM has none for it). Ray
binds it to the node's address; here it goes to loopback. On a cluster it has to be reachable by the other nodes, and a
NetworkPolicy or security group is its guard (docs/security.md).
"""

from __future__ import annotations

import os
from typing import Any

ALONE = "SERVE_APP_ALONE"
"""Set by `serve_app serve` when it has started a Ray of its own."""
HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"


def bind(args: dict[str, Any], environ: Any = os.environ) -> dict[str, Any]:
    """The arguments with both roles' side channels on loopback, where nobody has said another address."""
    if not environ.get(ALONE):
        return args
    made = dict(args)
    for role in ("prefill_config", "decode_config"):
        runtime_env = args[role].get("runtime_env") or {}
        variables = {HOST: "127.0.0.1", **(runtime_env.get("env_vars") or {})}
        made[role] = {**args[role], "runtime_env": {**runtime_env, "env_vars": variables}}
    return made
