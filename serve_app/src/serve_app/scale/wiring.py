"""Puts the rules of serve_app.scale.policy where Serve looks for them."""

from __future__ import annotations

from serve_app.config.origin import Filler
from serve_app.scale import policy

BLOCK = "deployment_config.autoscaling_config"
RULES = {
    True: ("serve_app.scale.policy:Prefill", "tokens_per_replica", policy.TOKENS_PER_REPLICA, "queued prompt tokens"),
    False: ("serve_app.scale.policy:Decode", "kv_use", policy.KV_TARGET, "KV use"),
}
"""Is it prefill's? → the rule, its one number's name and value, and what it goes by."""


def fill(filler: Filler, prefill: bool, seqs: int) -> None:
    """A role's rule, where it scales at all and nobody has said by what."""
    scaling = filler.data["deployment_config"].get("autoscaling_config")
    if not isinstance(scaling, dict):
        return
    if scaling.get("policy") is None and "target_ongoing_requests" not in scaling:
        rule, name, value, why = RULES[prefill]
        filler.set(f"{BLOCK}.policy.policy_function", rule, f"default: by {why}")
        filler.set(f"{BLOCK}.policy.policy_kwargs.{name}", value, "default")
    # Serve asks for it whatever the rule is; Ray LLM's own default is 1e9.
    filler.set(f"{BLOCK}.target_ongoing_requests", max(1, seqs // 2), f"derived from max_num_seqs ({seqs})")
