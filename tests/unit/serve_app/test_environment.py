"""Environment defaults for any user."""

from __future__ import annotations

from pathlib import Path

import pytest
from serve_app.app import defaults
from serve_app.run import resources

from serve_app import environment


def test_what_is_set_and_usable_is_kept(tmp_path: Path) -> None:
    mine = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "USER": "me", "RAY_USAGE_STATS_ENABLED": "1"}
    environment.prepare(mine)
    assert mine["HF_HOME"] == str(tmp_path / "hf")
    assert mine["USER"] == "me"
    assert mine["LOGNAME"]
    assert mine["RAY_USAGE_STATS_ENABLED"] == "1"


@pytest.mark.parametrize("home", ["", "/", "/proc/1/none", "relative"])
def test_without_a_usable_home_everything_gets_a_place(home: str, tmp_path: Path) -> None:
    mine = {"HOME": home, "SERVE_APP_CACHE": str(tmp_path / "cache")}
    environment.prepare(mine)
    for name in ("HOME", *environment.FOLDERS):
        assert mine[name].startswith(str(tmp_path)), name
    assert Path(mine["HOME"]).is_dir()


def test_a_cache_folder_that_can_not_be_made_is_replaced(tmp_path: Path) -> None:
    mine = {"HOME": str(tmp_path), "HF_HOME": "/proc/none"}
    environment.prepare(mine)
    assert mine["HF_HOME"] != "/proc/none"


def test_cpu_engines_get_cpu_settings_and_keep_their_own() -> None:
    config = {
        "model_loading_config": {"model_id": "a", "model_source": "/models/a"},
        "accelerator_config": {"kind": "cpu"},
        "runtime_env": {"env_vars": {"VLLM_CPU_KVCACHE_SPACE": "9"}},
    }
    defaults.fill_engine(config)
    variables = config["runtime_env"]["env_vars"]  # type: ignore[index]
    assert variables["VLLM_CPU_KVCACHE_SPACE"] == "9"
    assert variables["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert config["callback_config"] == {"callback_class": defaults.LOCAL_MODEL}


@pytest.mark.parametrize(
    ("config", "no_gpu", "cpu"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"accelerator_config": {"kind": "gpu"}}, True, False),
        ({"accelerator_type": "L4"}, True, False),
        ({"placement_group_config": {"bundles": [{"CPU": 1, "my_node": 0.1}]}}, False, True),
        ({"placement_group_config": {"bundle_per_worker": {"GPU": 1}}}, True, False),
    ],
)
def test_what_runs_on_the_cpu(config: dict[str, object], no_gpu: bool, cpu: bool) -> None:
    defaults.fill_engine(config, "cpu" if no_gpu else "gpu")
    assert (config.get("accelerator_config") == {"kind": "cpu"}) is cpu
    assert ("runtime_env" in config) is cpu


def test_a_configuration_for_gpus_is_left_alone() -> None:
    config = {"model_loading_config": {"model_id": "a", "model_source": "org/a"}, "accelerator_type": "L4"}
    before = dict(config)
    defaults.fill_engine(config, "cpu")
    assert config == {**before, "log_engine_metrics": False}


@pytest.mark.parametrize(
    ("args", "least"),
    [
        ({"llm_configs": [{"deployment_config": {"num_replicas": 3}}]}, 3 * 2 + 1),
        ({"llm_configs": [{"placement_group_config": {"bundles": [{"CPU": 4}, {"CPU": 4}]}}]}, 9 + 1),
        ({"llm_configs": [{"engine_kwargs": {"tensor_parallel_size": 4}}]}, 5 + 1),
        ({"llm_configs": [{"deployment_config": {"autoscaling_config": {"max_replicas": 5}}}]}, 5 * 2 + 1),
        ({"prefill_config": {}, "decode_config": {}}, 4 + 1),
    ],
)
def test_ray_counts_enough_cpus(args: dict[str, object], least: int) -> None:
    assert resources.logical_cpus({"applications": [{"args": args}]}) >= least + resources.SPARE
