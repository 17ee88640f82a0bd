"""The forms a configuration can have, and the one form it is brought into: a Serve file with `applications:`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serve_app.config.check import Checker
from serve_app.config.document import Document
from serve_app.errors import Problem

FORMS = "model with prefill and decode; llm_configs or model_loading_config for one node; or applications"


@dataclass(frozen=True)
class Plan:
    """What to run. serve: a Serve configuration (`applications`, `http_options`, ...), checked. document: what it was
    made from; wrapped: that was the arguments of its one application."""

    serve: dict[str, Any]
    source: str
    document: Document
    wrapped: bool = False

    @property
    def applications(self) -> list[dict[str, Any]]:
        """The applications, as in Ray's ServeApplicationSchema."""
        found: list[dict[str, Any]] = self.serve["applications"]
        return found

    def refuse(self, problems: list[Problem]) -> None:
        """Raises ConfigError, by the file's own paths and lines, when there are problems of `applications[…]`."""
        start = "applications[0].args." if self.wrapped else ""
        self.document.refuse([replace(p, path=p.path.removeprefix(start)) for p in problems])


def plan(document: Document) -> Plan:
    """Checks a document and brings it into one form. Raises ConfigError with every problem.

    Taken: a Serve file (`applications:`), the arguments of a builder (`llm_configs:` or `prefill_config:` and
    `decode_config:`), the short form of prefill/decode (`model:`, `prefill:`, `decode:`), or one LLMConfig
    (`model_loading_config:`).
    """
    data = copy.deepcopy(document.data)
    checker = Checker()
    if not isinstance(data, dict) or not data:
        document.refuse([Problem("", f"must be a mapping: {FORMS}")])
    if "model" in data and not _form(data) and "applications" not in data:
        document.refuse([Problem("model", f"neither prefill nor decode stands beside it: {FORMS}")])
    form = _form(data)
    if form is None:
        checker.section(data, "serve", "")
    else:
        section, target = form
        if section == "llm_config":
            checker.one_model(data, "")
        else:
            checker.section(data, section, "")
        data = {"applications": [{"name": "default", "route_prefix": "/", "import_path": target, "args": data}]}
    checker.problems += _missing_models(document.data, "")
    document.refuse(checker.problems)
    return Plan(data, document.source, document, form is not None)


def _form(data: dict[str, Any]) -> tuple[str, str] | None:
    if "applications" in data:
        return None
    if "prefill_config" in data or "decode_config" in data:
        return "pd_serving_args", "serve_app:build_pd_app"
    if {"prefill", "decode"} & set(data):
        return "short_form", "serve_app:build_pd_app"
    if "model_loading_config" in data:
        return "llm_config", "serve_app:build_app"
    if "llm_configs" in data:
        return "llm_serving_args", "serve_app:build_app"
    return None


def _missing_models(data: Any, path: str) -> list[Problem]:
    """Model sources that are clearly folders here (they start with / or .) and are not there."""
    if isinstance(data, list):
        return [found for index, item in enumerate(data) for found in _missing_models(item, f"{path}[{index}]")]
    if not isinstance(data, dict):
        return []
    problems = []
    for key, value in data.items():
        at = f"{path}.{key}" if path else str(key)
        named = key == "model_source" or at.endswith("model.source")
        if named and isinstance(value, str) and value.startswith(("/", "./", "../", "~")):
            if not Path(value).expanduser().exists():
                problems.append(Problem(at, f"there is no {value} on this machine"))
        else:
            problems += _missing_models(value, at)
    return problems
