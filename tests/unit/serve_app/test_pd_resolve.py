"""What people forget is filled in, what can't work is refused, and every value's origin is known."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from serve_app.config import document, explain, forms, origin  # noqa: E402
from serve_app.errors import ConfigError  # noqa: E402
from serve_app.pd import fabric, table  # noqa: E402
from serve_app.pd.resolve import resolve  # noqa: E402

SHORT: dict[str, Any] = {
    "model": {"id": "tiny", "source": "org/tiny", "engine": {"max_model_len": 2048}},
    "prefill": {"replicas": 2, "engine": {"max_num_seqs": 8}},
    "decode": {},
}
ROLE: dict[str, Any] = {
    "model_loading_config": {"model_id": "tiny", "model_source": "org/tiny"},
    "engine_kwargs": {"kv_transfer_config": {"kv_connector": "NixlConnector"}},
}
LONG: dict[str, Any] = {"prefill_config": ROLE, "decode_config": ROLE}


def problems(args: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        resolve(args, "cpu", efa=False)
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize("args", [SHORT, LONG])
def test_both_forms_come_out_complete(args: dict[str, Any]) -> None:
    before = copy.deepcopy(args)
    made = resolve(args, "cpu", efa=False).args
    assert args == before
    for role, kv_role in (("prefill_config", "kv_producer"), ("decode_config", "kv_consumer")):
        transfer = made[role]["engine_kwargs"]["kv_transfer_config"]
        assert transfer["kv_connector"] == "NixlConnector"
        assert transfer["kv_role"] == kv_role
        assert transfer["kv_load_failure_policy"] == "recompute"
        assert transfer["kv_buffer_device"] == "cpu"
        assert transfer["kv_connector_extra_config"]["backends"] == ["UCX"]
        assert "engine_id" not in transfer, "Ray makes one that differs for every start"
        assert 0 < made[role]["deployment_config"]["max_ongoing_requests"] < 100_000


def test_the_short_form_means_what_it_says() -> None:
    made = resolve(SHORT, "cpu", efa=False).args
    assert made["prefill_config"]["deployment_config"]["num_replicas"] == 2
    assert made["prefill_config"]["engine_kwargs"]["max_num_seqs"] == 8
    assert made["prefill_config"]["engine_kwargs"]["max_model_len"] == 2048
    assert "max_num_seqs" not in made["decode_config"]["engine_kwargs"]


def test_what_is_given_is_kept() -> None:
    args = document.unshared(LONG)
    args["decode_config"]["engine_kwargs"]["block_size"] = 32
    args["decode_config"]["deployment_config"] = {"max_ongoing_requests": 7}
    made = resolve(args, "cpu", efa=False)
    assert made.args["decode_config"]["engine_kwargs"]["block_size"] == 32
    assert made.args["decode_config"]["deployment_config"]["max_ongoing_requests"] == 7
    assert "decode_config.engine_kwargs.block_size" not in made.origin
    assert "different block sizes" in " ".join(made.warnings)


def test_prompts_below_a_kv_block_stay_with_decode_unless_told_otherwise() -> None:
    block = {"engine": {"block_size": 32}}
    assert resolve({**SHORT, "decode": block}, "cpu", efa=False).settings.min_tokens == 32
    assert resolve({**SHORT, "kv_transfer": {"min_tokens": 0}}, "cpu", efa=False).settings.min_tokens == 0


def test_every_value_has_an_origin() -> None:
    made = resolve(SHORT, "cpu", efa=False)
    for path, _ in origin.leaves(made.args):
        if path not in made.origin:
            assert any(word in path for word in ("model_", "max_model_len", "max_num_seqs", "num_replicas")), path


@pytest.mark.parametrize(
    ("choice", "efa", "expected"),
    [("auto", True, "LIBFABRIC"), ("auto", False, "UCX"), ("ucx", True, "UCX"), ("efa", False, "LIBFABRIC"),
     ("libfabric", False, "LIBFABRIC")],
)  # fmt: skip
def test_the_fabric(choice: str, efa: bool, expected: str) -> None:
    made = resolve({**SHORT, "kv_transfer": {"fabric": choice}}, "cpu", efa=efa).args
    for role in ("prefill_config", "decode_config"):
        assert made[role]["engine_kwargs"]["kv_transfer_config"]["kv_connector_extra_config"]["backends"] == [expected]


def test_an_efa_is_known_by_its_driver(tmp_path: Path) -> None:
    dev, sys = tmp_path / "dev", tmp_path / "sys"
    for name, driver in (("uverbs0", "mlx5_core"), ("uverbs1", "efa")):
        (dev / name).mkdir(parents=True)
        (tmp_path / "drivers" / driver).mkdir(parents=True)
        (sys / name / "device").mkdir(parents=True)
        (sys / name / "device" / "driver").symlink_to(tmp_path / "drivers" / driver)
    assert fabric.efa_here(dev, sys)
    (sys / "uverbs1" / "device" / "driver").unlink()
    assert not fabric.efa_here(dev, sys)
    assert not fabric.efa_here(tmp_path / "none", sys)


def change(path: str, value: Any, base: dict[str, Any] = LONG) -> dict[str, Any]:
    args = document.unshared(base)
    at: Any = args
    *parents, last = path.split(".")
    for parent in parents:
        at = at.setdefault(parent, {})
    at[last] = value
    return args


@pytest.mark.parametrize(
    ("path", "value", "at", "word"),
    [
        ("proxy_deployment_config", {}, "proxy_deployment_config", "gone since Ray 2.59"),
        ("decode_config.model_loading_config.model_id", "other", "decode_config.model_loading_config.model_id",
         "one model"),
        ("decode_config.engine_kwargs.dtype", "float32", "decode_config.engine_kwargs.dtype", "one dtype for both"),
        ("decode_config.engine_kwargs.kv_cache_dtype", "fp8", "decode_config.engine_kwargs.kv_cache_dtype", "both"),
        ("decode_config.engine_kwargs.pipeline_parallel_size", 2, "decode_config.engine_kwargs.pipeline_parallel_size",
         "pipeline"),
        ("decode_config.engine_kwargs.kv_transfer_config.kv_role", "kv_producer",
         "decode_config.engine_kwargs.kv_transfer_config.kv_role", "kv_consumer"),
        ("prefill_config", "file.yaml", "prefill_config", "mapping"),
        ("kv_transfer", {"fabrik": "ucx"}, "kv_transfer.fabrik", "did you mean fabric?"),
        ("kv_transfer", {"fabric": "rdma"}, "kv_transfer.fabric", "not one of"),
        ("kv_transfer", {"silence_s": 1}, "kv_transfer.silence_s", "beat_s"),
        ("kv_transfer", {"lease_s": 0}, "kv_transfer.lease_s", "more than 0"),
        ("kv_transfer", {"lease_s": 3}, "kv_transfer.lease_s", "at least 6"),
    ],
)  # fmt: skip
def test_what_is_refused(path: str, value: Any, at: str, word: str) -> None:
    assert word in problems(change(path, value))[at]


def test_the_short_form_is_checked_too() -> None:
    found = problems({"model": {"id": "a", "sorce": "x"}, "prefill": {"replica": 1}, "decode": {"engine": {"dtyp": 1}}})
    assert "did you mean source?" in found["model.sorce"]
    assert "did you mean replicas?" in found["prefill.replica"]
    assert "did you mean dtype?" in found["decode.engine.dtyp"]


def test_a_yaml_of_the_short_form_is_taken_and_explained() -> None:
    plan = forms.plan(document.parse("model: {id: a, source: org/a}\nprefill: {}\ndecode: {}\n"))
    assert plan.applications[0]["import_path"] == "serve_app:build_pd_app"
    rows = {row.path: row for row in explain.rows(plan.applications[0], "x", "applications[0]")}
    assert rows["args.decode_config.model_loading_config.model_id"].origin == "given"
    assert rows["args.decode_config.engine_kwargs.kv_transfer_config.kv_role"].origin.startswith("derived")
    assert rows["args.kv_transfer.silence_s"].origin == "default"


@pytest.mark.parametrize(("ray", "stops"), [((2, 58, 1), True), ((2, 60, 0), False), ((), False)])
def test_adapters_need_a_ray_that_tells_prefill_of_them(ray: tuple[int, ...], stops: bool) -> None:
    role = {"lora_config": {"dynamic_lora_loading_path": "s3://adapters"}, "engine_kwargs": {}}
    problems, _ = table.judge(role, role, ray)
    assert [p.path for p in problems if "lora" in p.path] == (["decode_config.lora_config"] if stops else [])
