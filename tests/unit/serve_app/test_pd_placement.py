"""Prefill and decode on different nodes, or a refusal that names them."""

from __future__ import annotations

from typing import Any

import pytest
from serve_app.errors import ConfigError
from serve_app.pd.placement import LABEL, Node, apply, needs

A = Node("a", "node-a", {"CPU": 8.0, "GPU": 1.0})
B = Node("b", "node-b", {"CPU": 8.0, "GPU": 1.0})
HEAD = Node("h", "head", {"CPU": 4.0})


def gpu(**more: Any) -> dict[str, Any]:
    return {"engine_kwargs": {}, "deployment_config": {"num_replicas": 1}, **more}


def selectors(args: dict[str, Any]) -> dict[str, str]:
    return {
        role: args[role]["deployment_config"]["placement_group_bundle_label_selector"][0][LABEL]
        for role in ("prefill_config", "decode_config")
    }


def test_each_role_keeps_off_the_others_nodes() -> None:
    made = apply({"prefill_config": gpu(), "decode_config": gpu()}, [A, B, HEAD], False)
    assert selectors(made) == {"prefill_config": "!in(a)", "decode_config": "!in(b)"}


def test_the_input_is_left_as_it_is() -> None:
    args = {"prefill_config": gpu(), "decode_config": gpu()}
    apply(args, [A, B], False)
    assert args == {"prefill_config": gpu(), "decode_config": gpu()}


def test_one_node_is_refused_with_names_and_resources() -> None:
    with pytest.raises(ConfigError) as caught:
        apply({"prefill_config": gpu(), "decode_config": gpu()}, [A, HEAD], False)
    text = str(caught.value)
    for word in ("prefill_config", "node-a: CPU 8, GPU 1", "head: CPU 4", "GPU 1", "allow_same_node"):
        assert word in text


def test_one_node_is_fine_when_allowed() -> None:
    args = {"prefill_config": gpu(), "decode_config": gpu()}
    assert apply(args, [A], True) == args


def test_more_replicas_take_more_nodes() -> None:
    nodes = [Node(name, name, {"CPU": 8.0, "GPU": 2.0}) for name in "abc"]
    many = gpu(deployment_config={"num_replicas": 3})
    made = apply({"prefill_config": gpu(), "decode_config": many}, nodes, False)
    assert selectors(made)["prefill_config"] == "!in(a,b)"


@pytest.mark.parametrize(
    "placed",
    [
        {"placement_group_config": {"bundles": [{"CPU": 1, "my_node": 0.1}]}},
        {"deployment_config": {"ray_actor_options": {"resources": {"x": 1}}}},
        {"deployment_config": {"placement_group_bundle_label_selector": [{"zone": "a"}]}},
    ],
)
def test_what_the_user_has_placed_is_left_alone(placed: dict[str, Any]) -> None:
    args = {"prefill_config": gpu(**placed), "decode_config": gpu()}
    assert apply(args, [A], False) == args


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (gpu(), {"CPU": 1, "GPU": 1}),
        (gpu(engine_kwargs={"tensor_parallel_size": 4}), {"CPU": 1, "GPU": 4}),
        (gpu(accelerator_config={"kind": "cpu"}), {"CPU": 2}),
        (gpu(placement_group_config={"bundle_per_worker": {"CPU": 2, "GPU": 1}},
             engine_kwargs={"tensor_parallel_size": 2}), {"CPU": 5, "GPU": 2}),
    ],
)  # fmt: skip
def test_what_a_replica_takes(config: dict[str, Any], expected: dict[str, float]) -> None:
    assert needs(config) == expected
