"""Brings a prefill/decode configuration into Ray's schema, with what people forget filled in and its origin noted."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any

from serve_app import hardware
from serve_app.access.settings import Endpoint
from serve_app.app import defaults, load
from serve_app.app.defaults import WHY
from serve_app.config.check import Checker
from serve_app.config.document import join, unshared
from serve_app.config.origin import Filler
from serve_app.errors import ConfigError
from serve_app.pd import fabric, settings, short_form, table
from serve_app.pd.settings import Settings
from serve_app.scale import wiring as scaling

ROLES = {"prefill_config": "kv_producer", "decode_config": "kv_consumer"}
CONNECTOR = "serve_app.engine.connector"
MAX_NUM_SEQS = {"cpu": 128, "gpu": 256}
"""vLLM 0.29's own defaults for an API server; Ray does not say a number."""


@dataclass(frozen=True)
class Resolved:
    """args: for Ray's PDServingArgs. settings, endpoint: ours. origin: path → where a value comes from."""

    args: dict[str, Any]
    settings: Settings
    endpoint: Endpoint
    origin: dict[str, str]
    warnings: tuple[str, ...] = field(default=())


def resolve(args: dict[str, Any], kind: hardware.Kind | None = None, efa: bool | None = None) -> Resolved:
    """Checks and completes. kind, efa: the hardware; asked of this machine when not given.

    Raises ConfigError with every problem.
    """
    whole = unshared(args)
    checker = Checker()
    origin: dict[str, str] = {}
    if isinstance(whole, dict) and short_form.is_short(whole):
        short_form.check(whole, checker)
        _raise(checker)
        whole, origin = short_form.expand(whole)
    block = whole.get("kv_transfer") if isinstance(whole, dict) else None
    _check(whole, checker)
    _raise(checker)
    ours = Settings.of(block)
    for role, kv_role in ROLES.items():
        filler = Filler(whole[role], role, origin)
        _fill_role(filler, kv_role, ours, kind, fabric.efa_here() if efa is None else efa)
    if ours.min_tokens is None:
        ours = dataclasses.replace(ours, min_tokens=whole["decode_config"]["engine_kwargs"]["block_size"])
    given = whole.pop("endpoint", None)
    endpoint = Endpoint.of(given, request_s=ours.request_s, max_in_flight=load.in_flight([whole["decode_config"]]))
    for role in ROLES:
        load.fill_patience(Filler(whole[role], role, origin), endpoint.request_s)
        load.fill_tracing(Filler(whole[role], role, origin))
    load.fill_answers(Filler(whole["decode_config"], "decode_config", origin), endpoint.max_tokens)
    ingress = Filler(whole.setdefault("ingress_deployment_config", {}), "ingress_deployment_config", origin)
    load.fill_ingress(ingress, endpoint.max_in_flight or load.INGRESS_ONGOING)
    load.fill_patience(ingress, endpoint.request_s, "")
    problems, warnings = table.judge(whole["prefill_config"], whole["decode_config"])
    checker.problems += problems
    _raise(checker)
    whole.pop("kv_transfer", None)
    return Resolved(whole, ours, endpoint, origin, tuple(warnings))


def _raise(checker: Checker) -> None:
    if checker.problems:
        raise ConfigError(checker.problems)


def _check(whole: Any, checker: Checker) -> None:
    checker.section(whole, "pd_serving_args", "")
    if not isinstance(whole, dict):
        return
    for role in ROLES:
        if isinstance(whole.get(role), str):
            checker.add(role, "must be a mapping here, not a path to a file", "write the LLMConfig in its place")
    block = whole.get("kv_transfer")
    if isinstance(block, dict) and not any(p.path.startswith("kv_transfer") for p in checker.problems):
        for key, what in settings.faults(block):
            checker.add(join("kv_transfer", key), what)
    ids = [_model_id(whole.get(role)) for role in ROLES]
    if None not in ids and ids[0] != ids[1]:
        checker.add("decode_config.model_loading_config.model_id", f"is {ids[1]!r} and prefill's is {ids[0]!r}",
                    "prefill and decode serve one model")  # fmt: skip


def _model_id(config: Any) -> Any:
    loading = config.get("model_loading_config") if isinstance(config, dict) else None
    return loading.get("model_id") if isinstance(loading, dict) else None


def _fill_role(filler: Filler, kv_role: str, ours: Settings, kind: hardware.Kind | None, efa: bool) -> None:
    config = filler.data
    before = copy.deepcopy(config)
    defaults.fill_engine(config, kind)
    filler.note_changes(before, "derived from the hardware", WHY)
    on_cpu = (config.get("accelerator_config") or {}).get("kind") == "cpu"
    device = "cpu" if on_cpu else "gpu"
    filler.set("engine_kwargs.block_size", 128 if on_cpu else 64, "default: big blocks make few, big transfers")
    filler.set("engine_kwargs.enable_prefix_caching", True, "default: n > 1 and prompt lists share a fetched prompt")
    transfer = "engine_kwargs.kv_transfer_config"
    filler.set(f"{transfer}.kv_connector", "NixlConnector", "default")
    if config["engine_kwargs"]["kv_transfer_config"]["kv_connector"] == "NixlConnector":
        filler.set(f"{transfer}.kv_role", kv_role, "derived from the role")
        filler.set(f"{transfer}.kv_connector_module_path", CONNECTOR, "default: lease proof, CPU affinity")
        filler.set(f"{transfer}.kv_buffer_device", "cpu" if on_cpu else "cuda", "derived from the hardware")
        filler.set(f"{transfer}.kv_load_failure_policy", ours.on_failure, "derived from kv_transfer.on_failure")
        backends, why = fabric.backends(ours.fabric, efa)
        extra = f"{transfer}.kv_connector_extra_config"
        filler.set(f"{extra}.backends", backends, why)
        filler.set(f"{extra}.kv_lease_duration", ours.lease_s, "derived from kv_transfer.lease_s")
        filler.set(f"{extra}.progress_us", ours.progress_us, "derived from kv_transfer.progress_us")
        if on_cpu and backends == ["UCX"]:
            filler.set(f"{extra}.num_threads", 1, "derived from the hardware: few cores")
    seqs = config["engine_kwargs"].get("max_num_seqs") or MAX_NUM_SEQS[device]
    # Prefill's queue is its engine's: a request that waits there still beats, one that waits at a router is silent.
    ongoing = 2 * seqs if kv_role == "kv_consumer" else max(4 * seqs, 1024)
    filler.set("deployment_config.max_ongoing_requests", ongoing, f"derived from max_num_seqs ({seqs})")
    if kv_role == "kv_consumer":
        filler.set("deployment_config.max_queued_requests", ongoing,
                   f"derived from max_num_seqs ({seqs}): beyond it a request gets 429 at once")  # fmt: skip
    if "num_replicas" not in config["deployment_config"] and "autoscaling_config" not in config["deployment_config"]:
        filler.set("deployment_config.num_replicas", 1, "default")
    scaling.fill(filler, kv_role == "kv_producer", seqs)
    filler.set("deployment_config.health_check_period_s", 5, "default: a dead engine is found in seconds")
    filler.set("deployment_config.health_check_timeout_s", 30, "default: a starved replica is not a dead one")
