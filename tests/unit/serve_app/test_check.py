"""The checks before anything starts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

pytest.importorskip("yaml")

from serve_app.config import document, forms, known_keys  # noqa: E402
from serve_app.config.check import Checker  # noqa: E402
from serve_app.config.values import fault  # noqa: E402
from serve_app.errors import ConfigError, Problem  # noqa: E402

GOOD: dict[str, Any] = {
    "llm_configs": [
        {
            "model_loading_config": {"model_id": "tiny", "model_source": "org/tiny"},
            "accelerator_config": {"kind": "cpu"},
            "placement_group_config": {"bundles": [{"CPU": 1}]},
            "deployment_config": {"autoscaling_config": {"min_replicas": 1, "max_replicas": 2}},
            "engine_kwargs": {
                "max_model_len": 2048,
                "dtype": "float32",
                "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
            },
            "runtime_env": {"env_vars": {"A": "1"}},
        }
    ],
    "ingress_deployment_config": {"num_replicas": 1},
}


def problems(args: dict[str, Any], section: str = "llm_serving_args") -> dict[str, Problem]:
    checker = Checker(known_keys.Known(known_keys.load().sections, exact=True))
    checker.section(args, section, "")
    return {problem.path: problem for problem in checker.problems}


def changed(path: str, value: Any) -> dict[str, Any]:
    args = copy.deepcopy(GOOD)
    at: Any = args["llm_configs"][0]
    *parents, last = path.split(".")
    for parent in parents:
        at = at.setdefault(parent, {})
    at[last] = value
    return args


def test_rays_own_schema_passes_unchanged() -> None:
    assert problems(GOOD) == {}


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("engine_kwargs.dtyp", "auto", "did you mean dtype?"),
        ("engine_kwargs.tensorParallelSize", 2, "did you mean tensor_parallel_size?"),
        ("engine_kwargs.dtype", "flaot32", "did you mean float32?"),
        ("engine_kwargs.max_model_len", "2048", "write 2048 without quotes"),
        ("engine_kwargs.enforce_eager", "yes", "write true without quotes"),
        ("engine_kwargs.enforce_eager", 1, "must be true or false"),
        ("engine_kwargs.max_model_len", True, "must be a whole number"),
        ("engine_kwargs.tensor_parallel_size", 0, "must be at least 1"),
        ("engine_kwargs.model", "x", "model_loading_config.model_source"),
        ("engine_kwargs.kv_transfer_config.kv_rol", "kv_both", "did you mean kv_role?"),
        ("engine_kwargs.kv_transfer_config.kv_role", "both", "kv_both"),
        ("model_loading_config.model_sorce", "x", "did you mean model_source?"),
        ("model_loading_config.model_id", 7, 'write "7" in quotes'),
        ("deployment_config.autoscaling_config.min_replicaz", 1, "did you mean min_replicas?"),
        ("accelerator_config.kind", "gpus", "did you mean gpu?"),
        ("runtime_env.env_var", {}, "did you mean env_vars?"),
        ("resources_per_bundle", {}, "placement_group_config"),
    ],
)
def test_one_mistake_is_found_with_its_path_and_remedy(path: str, value: Any, word: str) -> None:
    found = problems(changed(path, value))
    at = f"llm_configs[0].{path}"
    assert at in found
    assert word in str(found[at])


def test_every_problem_is_told_at_once() -> None:
    args = changed("engine_kwargs.dtyp", "auto")
    args["proxy_deployment_config"] = {}
    args["llm_configs"].append({"engine_kwargs": {"seed": "a"}})
    found = problems(args)
    assert set(found) == {
        "llm_configs[0].engine_kwargs.dtyp",
        "proxy_deployment_config",
        "llm_configs[1].engine_kwargs.seed",
        "llm_configs[1]",
    }
    assert "gone since Ray 2.59, use ingress_deployment_config" in str(found["proxy_deployment_config"])


def test_two_models_of_one_name_are_refused() -> None:
    args = copy.deepcopy(GOOD)
    args["llm_configs"] *= 2
    assert "is taken by" in str(problems(args)["llm_configs[1]"])


def test_replicas_and_autoscaling_exclude_each_other() -> None:
    assert "exclude" in str(problems(changed("deployment_config.num_replicas", 2))["llm_configs[0].deployment_config"])


@pytest.mark.parametrize("wrong", [None, [], "x", 3, {"llm_configs": []}, {"llm_configs": ["a", None]}])
def test_odd_documents_give_problems_and_no_traceback(wrong: Any) -> None:
    assert problems(wrong)


def test_unknown_keys_pass_where_the_table_is_of_other_versions() -> None:
    checker = Checker(known_keys.Known(known_keys.load().sections, exact=False))
    checker.section(changed("engine_kwargs.brand_new", 1), "llm_serving_args", "")
    assert checker.problems == []


def test_null_means_the_default() -> None:
    assert fault(None, ["int"]) is None


def test_a_number_may_be_written_without_a_point() -> None:
    assert fault(1, ["float"]) is None
    assert fault(True, ["float"]) is not None


def parse(text: str) -> forms.Plan:
    return forms.plan(document.parse(text, "test.yaml"))


def test_each_form_becomes_a_serve_file() -> None:
    one = parse("model_loading_config: {model_id: a}\n")
    many = parse("llm_configs: [{model_loading_config: {model_id: a}}]\n")
    whole = parse("applications:\n- import_path: serve_app:build_app\n  args: {model_loading_config: {model_id: a}}\n")
    for plan in (one, many, whole):
        assert plan.applications[0]["import_path"] == "serve_app:build_app"


def test_serve_keys_ray_would_ignore_in_silence_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("http_option: {port: 1}\napplications: []\n")
    assert "did you mean http_options?" in str(caught.value)
    assert "applications: is empty" in str(caught.value)


def test_a_builder_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"did you mean serve_app:build_app\?"):
        parse("applications: [{import_path: 'serve_app:buildapp'}]\n")


def test_foreign_applications_keep_their_arguments() -> None:
    plan = parse("applications: [{import_path: 'mine:app', args: {whatever: 1}}]\n")
    assert plan.applications[0]["args"] == {"whatever": 1}


def test_a_model_folder_that_is_not_there_is_told_before_the_start() -> None:
    with pytest.raises(ConfigError, match="there is no /no/such/model"):
        parse("model_loading_config: {model_id: a, model_source: /no/such/model}\n")


@pytest.mark.parametrize("text", ["", "[]", "a", "3", "null", "{}"])
def test_documents_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be a mapping"):
        parse(text)


def test_the_error_survives_pickling() -> None:
    error = ConfigError([Problem("a.b", "is wrong", "write c", 3)], "x.yaml")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


def test_there_is_a_table_for_every_release() -> None:
    import tomllib
    from importlib import resources
    from pathlib import Path

    pins = tomllib.loads((Path(__file__).parents[3] / "versions.toml").read_text())
    names = {file.name for file in resources.files("serve_app.config").joinpath("known").iterdir()}
    for release in pins["releases"].values():
        ray = release["wheels"]["ray[serve,llm]"]
        vllm = release["variants"]["cuda"]["wheels"]["vllm"]
        assert f"ray-{ray}-vllm-{vllm}.json" in names


def test_the_table_is_that_of_the_installed_release(monkeypatch: pytest.MonkeyPatch) -> None:
    for versions, in_new in (({"ray": "2.58.1", "vllm": "0.26.0"}, False), ({"ray": "2.60.0", "vllm": "0.29.0"}, True)):
        monkeypatch.setattr(known_keys, "installed", lambda versions=versions: versions)
        known_keys.load.cache_clear()
        known = known_keys.load()
        assert known.exact
        assert ("ec_manager_config" in known.keys("engine_kwargs")) is in_new
        assert ("override_attention_dtype" in known.keys("engine_kwargs")) is not in_new
    known_keys.load.cache_clear()
