"""The rules by which Serve scales prefill and decode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("yaml")

from serve_app.observe import derived  # noqa: E402
from serve_app.pd.resolve import resolve  # noqa: E402
from serve_app.scale import policy, report  # noqa: E402
from serve_app.scale.names import KV_USE, QUEUED_TOKENS, WAITING  # noqa: E402

SHORT = {"model": {"id": "m", "source": "org/m"}, "prefill": {}, "decode": {}}
SCALING = {"min_replicas": 1, "max_replicas": 4}


def context(now: int, **metrics: dict[str, float]) -> Any:
    return SimpleNamespace(current_num_replicas=now, target_num_replicas=now, aggregated_metrics=metrics)


@pytest.mark.parametrize(
    ("queued", "now", "wanted"),
    [
        ([0], 1, 1),
        ([16384], 1, 1),
        ([16385], 1, 2),
        ([60000], 1, 4),
        ([16000, 16000], 2, 2),
        ([8000, 6000], 2, 2),  # one could hold it, but hardly: stay
        ([6000, 6000], 2, 1),
        ([0, 0, 0], 3, 1),
    ],
)
def test_prefill_by_queued_prompt_tokens(queued: list[float], now: int, wanted: int) -> None:
    reported = {f"r{index}": tokens for index, tokens in enumerate(queued)}
    assert policy.Prefill()(context(now, **{QUEUED_TOKENS: reported})) == (wanted, {})


@pytest.mark.parametrize(
    ("use", "waiting", "now", "wanted"),
    [
        ([0.0], [0], 1, 1),
        ([0.7], [0], 1, 1),
        ([0.75], [0], 1, 2),
        ([1.0], [12], 1, 2),
        ([1.0, 1.0], [5, 0], 2, 3),
        ([0.3, 0.3], [0, 0], 2, 2),
        ([0.2, 0.2], [0, 0], 2, 1),
        ([0.1], [1], 1, 2),
    ],
)
def test_decode_by_kv_use(use: list[float], waiting: list[float], now: int, wanted: int) -> None:
    metrics = {KV_USE: dict(enumerate(use)), WAITING: dict(enumerate(waiting))}
    assert policy.Decode()(context(now, **metrics)) == (wanted, {})


def test_nothing_heard_changes_nothing() -> None:
    assert policy.Prefill()(context(3)) == (3, {})
    assert policy.Decode()(context(3)) == (3, {})


@given(st.floats(0, 1e6), st.floats(0.1, 1e5), st.integers(1, 50))
def test_a_rule_is_steady(load: float, target: float, now: int) -> None:
    first = policy.wanted(load, target, now)
    assert first >= 1
    assert policy.wanted(load, target, int(first)) == first, "with what was wanted nothing more is wanted"
    assert policy.wanted(load + target, target, now) >= first


def test_the_rules_are_where_serve_looks_for_them() -> None:
    roles = {"prefill": {"autoscaling": SCALING}, "decode": {"autoscaling": SCALING}}
    resolved = resolve({**SHORT, **roles}, "cpu", efa=False)
    scaling = {role: resolved.args[f"{role}_config"]["deployment_config"]["autoscaling_config"] for role in roles}
    assert scaling["prefill"]["policy"]["policy_function"] == "serve_app.scale.policy:Prefill"
    assert scaling["decode"]["policy"]["policy_function"] == "serve_app.scale.policy:Decode"
    assert scaling["decode"]["policy"]["policy_kwargs"] == {"kv_use": policy.KV_TARGET}
    origin = resolved.origin["decode_config.deployment_config.autoscaling_config.policy.policy_function"]
    assert origin == "default: by KV use"
    kwargs = "prefill_config.deployment_config.autoscaling_config.policy.policy_kwargs.tokens_per_replica"
    assert resolved.origin[kwargs] == "default"
    own = {**SCALING, "target_ongoing_requests": 3}
    kept = resolve({**SHORT, "decode": {"autoscaling": own}}, "cpu", efa=False)
    assert "policy" not in kept.args["decode_config"]["deployment_config"]["autoscaling_config"]


def test_serve_takes_the_rules() -> None:
    config = pytest.importorskip("ray.serve.config")
    given = config.AutoscalingConfig(**SCALING, policy={"policy_function": "serve_app.scale.policy:Decode",
                                                        "policy_kwargs": {"kv_use": 0.5}})  # fmt: skip
    given.policy.serialize_policy() if hasattr(given.policy, "serialize_policy") else None
    rule = given.policy.get_policy()
    assert rule(**given.policy.policy_kwargs)(context(1, **{KV_USE: {"a": 0.6}, WAITING: {}})) == (2, {})


def test_prompt_tokens_that_are_not_computed_yet() -> None:
    states = [SimpleNamespace(prompt_len=100, is_prefilling=True), SimpleNamespace(prompt_len=50, is_prefilling=False)]
    assert report.queued_tokens(states) == 100


class Registry:
    """As much of Prometheus' registry as is read."""

    def __init__(self, *samples: tuple[str, dict[str, str], float]) -> None:
        self.samples = [SimpleNamespace(name=name, labels=labels, value=value) for name, labels, value in samples]

    def collect(self) -> list[Any]:
        return [SimpleNamespace(samples=self.samples)]


def test_free_blocks_and_the_rate_of_transfers() -> None:
    registry = Registry(
        ("vllm:cache_config_info", {"num_gpu_blocks": "41", "engine": "0"}, 1),
        ("vllm:kv_cache_usage_perc", {"engine": "0"}, 0.25),
        ("vllm:nixl_xfer_time_seconds_sum", {"engine": "0"}, 2.0),
        ("vllm:nixl_bytes_transferred_sum", {"engine": "0"}, 5e9),
        ("vllm:num_requests_waiting_by_reason", {"reason": "capacity"}, 3),
        ("vllm:num_requests_waiting_by_reason", {"reason": "deferred"}, 9),
    )
    assert derived.blocks(registry) == (30.0, 40.0)
    assert derived.waiting(registry) == 3
    lines = derived.text(registry).splitlines()
    assert "serve_app_kv_blocks_free 30.0" in lines
    assert "serve_app_kv_transfer_gigabytes_per_second 2.5" in lines
    assert derived.text(Registry()) == ""
