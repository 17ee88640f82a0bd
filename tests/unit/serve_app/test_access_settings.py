"""The `endpoint` block, and the limits that follow from a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from serve_app.access import settings, shape  # noqa: E402
from serve_app.access.settings import Endpoint  # noqa: E402
from serve_app.app import single  # noqa: E402
from serve_app.config import document, explain, forms  # noqa: E402
from serve_app.errors import ConfigError  # noqa: E402
from serve_app.openai.errors import ApiError  # noqa: E402
from serve_app.pd.resolve import resolve  # noqa: E402

ONE = {
    "model_loading_config": {"model_id": "m", "model_source": "org/m"},
    "accelerator_config": {"kind": "cpu"},
    "engine_kwargs": {"max_num_seqs": 16},
}
SHORT = {
    "model": {"id": "m", "source": "org/m", "engine": {"max_num_seqs": 16}},
    "prefill": {},
    "decode": {"replicas": 2},
}


def test_every_field_can_be_said() -> None:
    assert set(settings.known()) == set(Endpoint.__dataclass_fields__)


@pytest.mark.parametrize(
    ("block", "path", "remedy"),
    [
        ({"keys_fil": "x"}, "endpoint.keys_fil", "did you mean keys_file?"),
        ({"max_tokens": 0}, "endpoint.max_tokens", None),
        ({"max_tokens": "5"}, "endpoint.max_tokens", "write 5 without quotes"),
        ({"metrics": "opn"}, "endpoint.metrics", "did you mean open?"),
        ({"metrics": "key"}, "endpoint.metrics", "set keys_file, or metrics: open"),
        ({"silence_s": 1}, "endpoint.silence_s", None),
        ({"drain_s": -1}, "endpoint.drain_s", None),
        ({"cors_origins": ["example.com"]}, "endpoint.cors_origins[0]", 'write https://host or "*"'),
    ],
)
@pytest.mark.parametrize("base", [ONE, SHORT, {"llm_configs": [ONE]}], ids=["one", "short", "list"])
def test_what_is_wrong_is_told_with_its_place(
    base: dict[str, Any], block: dict[str, Any], path: str, remedy: str | None
) -> None:
    with pytest.raises(ConfigError) as error:
        forms.plan(document.Document({**base, "endpoint": block}))
    assert [(problem.path, problem.remedy) for problem in error.value.problems] == [(path, remedy)]


def test_a_keys_file_that_is_here_is_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("keys: [{name: a}]")
    with pytest.raises(ConfigError, match="must have either key or sha256"):
        single.resolve({**ONE, "endpoint": {"keys_file": str(file)}})


def test_one_node_gets_limits_that_are_not_a_thousand_million() -> None:
    resolved = single.resolve(ONE)
    deployment = resolved.args["llm_configs"][0]["deployment_config"]
    assert deployment["max_ongoing_requests"] == 16
    assert deployment["max_queued_requests"] == 16
    assert resolved.endpoint.max_in_flight == 16
    ingress = resolved.args["ingress_deployment_config"]
    assert ingress["num_replicas"] == 1
    assert ingress["max_ongoing_requests"] < 1e6
    assert deployment["graceful_shutdown_timeout_s"] == ingress["graceful_shutdown_timeout_s"] == 600


def test_one_node_scales_on_a_finite_number() -> None:
    scaling = {"min_replicas": 1, "max_replicas": 3}
    resolved = single.resolve({**ONE, "deployment_config": {"autoscaling_config": scaling}})
    assert resolved.args["llm_configs"][0]["deployment_config"]["autoscaling_config"]["target_ongoing_requests"] == 8
    assert resolved.endpoint.max_in_flight == 48


def test_what_is_given_stays() -> None:
    resolved = single.resolve(
        {**ONE, "deployment_config": {"max_ongoing_requests": 7}, "endpoint": {"max_in_flight": 3}}
    )
    assert resolved.args["llm_configs"][0]["deployment_config"]["max_ongoing_requests"] == 7
    assert resolved.endpoint.max_in_flight == 3


def test_prefill_decode_has_the_block_as_well() -> None:
    resolved = resolve({**SHORT, "endpoint": {"max_tokens": 99}, "kv_transfer": {"request_s": 77}}, "cpu", efa=False)
    assert resolved.endpoint.request_s == 77
    assert resolved.endpoint.max_in_flight == 32
    assert resolved.args["decode_config"]["engine_kwargs"]["override_generation_config"] == {"max_new_tokens": 99}
    assert "override_generation_config" not in resolved.args["prefill_config"]["engine_kwargs"]
    assert "endpoint" not in resolved.args
    assert resolved.args["decode_config"]["deployment_config"]["graceful_shutdown_timeout_s"] == 77


def test_explain_shows_every_value_of_the_block() -> None:
    for args, target in ((ONE, "serve_app:build_app"), (SHORT, "serve_app:build_pd_app")):
        application = {"import_path": target, "args": {**args, "endpoint": {"max_tokens": 5}}}
        rows = {row.path: row for row in explain.rows(application, "x", "applications[0]")}
        for name in Endpoint.__dataclass_fields__:
            assert f"args.endpoint.{name}" in rows
        assert rows["args.endpoint.max_tokens"].origin == "given"
        assert rows["args.endpoint.drain_s"].origin == "default"
        assert rows["args.endpoint.max_in_flight"].origin.startswith("derived")


class Asked:
    """A request model's attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (Asked(prompt="x" * 41), "prompt"),
        (Asked(prompt=[1] * 11), "prompt"),
        (Asked(prompt=["x" * 20, "y" * 21]), "prompt"),
        (Asked(messages=[{"role": "user", "content": [{"type": "text", "text": "x" * 40}]}]), "messages"),
        (Asked(prompt="x", n=3), "n"),
        (Asked(prompt="x", best_of=3), "n"),
        (Asked(prompt=["x", "y", "z"]), "n"),
        (Asked(prompt=["x", "y"], n=2), "n"),
        (Asked(prompt="x", max_tokens=9), "max_tokens"),
        (Asked(messages=[], max_completion_tokens=9), "max_completion_tokens"),
        (Asked(prompt="x", min_tokens=9), "min_tokens"),
    ],
)
def test_requests_over_a_limit(request_: Any, param: str) -> None:
    with pytest.raises(ApiError) as error:
        shape.check(request_, Endpoint(max_prompt_chars=40, max_choices=2, max_tokens=8))
    assert (error.value.status, error.value.param) == (400, param)


@pytest.mark.parametrize(
    "request_",
    [
        Asked(prompt="x" * 40, n=2, max_tokens=8),
        Asked(prompt=[[1], [2]]),
        Asked(
            messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:," + "x" * 99}}]}]
        ),
    ],
)
def test_requests_at_a_limit(request_: Any) -> None:
    shape.check(request_, Endpoint(max_prompt_chars=40, max_choices=2, max_tokens=8))
