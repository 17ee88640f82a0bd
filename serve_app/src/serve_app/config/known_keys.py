"""Which keys and values Ray Serve LLM and vLLM know, per release (known/*.json, written by collect.py)."""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

GONE = {
    "proxy_cls_config": "gone since Ray 2.59, use ingress_cls_config",
    "proxy_deployment_config": "gone since Ray 2.59, use ingress_deployment_config",
    "resources_per_bundle": "gone since Ray 2.50, use placement_group_config: {bundle_per_worker: ...}",
    "num_router_replicas": "renamed, use num_ingress_replicas",
    "max_concurrent_queries": "renamed, use max_ongoing_requests",
    "target_num_ongoing_requests_per_replica": "renamed, use target_ongoing_requests",
    "kv_connector_extra_configs": "use kv_connector_extra_config",
    "model": "in engine_kwargs the model is not set; use model_loading_config.model_source",
    "served_model_name": "in engine_kwargs the name is not set; use model_loading_config.model_id",
}
"""Names people bring along from older releases or from `vllm serve`, and what to write now."""


OUR_BLOCKS = ("kv_transfer", "endpoint")
"""Blocks beside Ray's own arguments."""


@dataclass(frozen=True)
class Known:
    """sections: section → key → {"kinds": [...], "choices": [...]}. exact: made from the installed versions."""

    sections: dict[str, dict[str, dict[str, Any]]]
    exact: bool

    def keys(self, section: str) -> dict[str, dict[str, Any]]:
        """The keys of a section."""
        return self.sections[section]


def _ours() -> dict[str, dict[str, dict[str, Any]]]:
    """Sections that Ray does not know."""
    from serve_app.access import settings as endpoint
    from serve_app.pd import settings

    role = {
        "replicas": {"kinds": ["choice", "int"], "choices": ["auto"]},
        "autoscaling": {"kinds": ["dict"]},
        "engine": {"kinds": ["dict"]},
        "accelerator_type": {"kinds": ["str"]},
        "accelerator": {"kinds": ["dict"]},
        "placement": {"kinds": ["dict"]},
        "runtime_env": {"kinds": ["dict"]},
    }
    return {
        "kv_transfer": settings.known(),
        "endpoint": endpoint.known(),
        "short_form": {name: {"kinds": ["dict"]} for name in OUR_BLOCKS + ("model", "prefill", "decode", "ingress")},
        "short_model": {
            "id": {"kinds": ["str"]},
            "source": {"kinds": ["str", "dict"]},
            "tokenizer": {"kinds": ["str"]},
            "engine": {"kinds": ["dict"]},
        },
        "short_role": role,
    }


@functools.cache
def load() -> Known:
    """The table of the installed Ray and vLLM; of the newest release, not exact, when there is none for them."""
    tables = [
        json.loads(file.read_text(encoding="utf-8"))
        for file in resources.files("serve_app.config").joinpath("known").iterdir()
        if file.name.endswith(".json")
    ]
    tables.sort(key=lambda table: [int(part) for part in table["versions"]["ray"].split(".")])
    here = installed()
    # Where Ray is not installed (a laptop that only checks a file) the newest table is the best there is.
    chosen = next((table for table in tables if table["versions"] == here), tables[-1])
    sections = {**chosen["sections"], **_ours()}
    for section, blocks in (("pd_serving_args", OUR_BLOCKS), ("llm_serving_args", ("endpoint",))):
        sections[section] = {**sections[section], **{name: {"kinds": ["dict"]} for name in blocks}}
    return Known(sections, exact=not here or chosen["versions"] == here)


def installed() -> dict[str, str]:
    """Versions of the Ray and vLLM beside us, as far as they are there."""
    found = {}
    for name in ("ray", "vllm"):
        try:
            found[name] = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def remedy(name: str, known: Iterable[str]) -> str | None:
    """What to write instead of an unknown name, or None when nothing is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    folded = {other.replace("_", "").lower(): other for other in names}
    same = folded.get(name.replace("-", "").replace("_", "").lower())
    if same or near:
        return f"did you mean {same or near[0]}?"
    return None
