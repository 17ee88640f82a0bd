"""Every value of a resolved application, and where it comes from."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from serve_app.config import origin
from serve_app.config.check import PREFILL_DECODE, SINGLE
from serve_app.config.forms import Plan
from serve_app.errors import ConfigError, Problem


@dataclass(frozen=True)
class Row:
    """One value. origin: `given`, `derived …` or `default …`."""

    path: str
    value: Any
    origin: str

    @property
    def shown(self) -> str:
        """The value as YAML (JSON is YAML)."""
        return json.dumps(self.value, ensure_ascii=False)

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return dataclasses.asdict(self)


def rows(application: dict[str, Any], source: str, path: str) -> list[Row]:
    """The application's own keys, and its arguments as the builder would have them.

    Raises ConfigError, with paths in the whole file.
    """
    target = application["import_path"]
    args = application.get("args") or {}
    found = [
        Row(key, application.get(key, value), "given" if key in application else "default")
        for key, value in (("import_path", None), ("route_prefix", "/"))
    ]
    try:
        if target == PREFILL_DECODE[0]:
            return found + _prefill_decode(args)
        if target == SINGLE[0]:
            return found + _single(args)
    except ConfigError as error:
        placed = [
            dataclasses.replace(p, path=f"{path}.args.{_written(p.path, args)}".rstrip(".")) for p in error.problems
        ]
        raise ConfigError(list(dict.fromkeys(placed)), source) from error
    # A builder that is not ours: what is given goes to it unchanged.
    return found + [Row(f"args.{name}", value, "given") for name, value in origin.leaves(args)]


def everything(plan: Plan) -> list[list[Row]]:
    """The rows of every application. Raises ConfigError with the problems of all of them, at the file's own lines."""
    problems: list[Problem] = []
    found: list[list[Row]] = []
    for index, application in enumerate(plan.applications):
        try:
            found.append(rows(application, plan.source, f"applications[{index}]"))
        except ConfigError as error:
            problems += error.problems
    plan.refuse(problems)
    return found


def _written(path: str, args: dict[str, Any]) -> str:
    """Where the user wrote what a builder calls by the path of what it was expanded to."""
    from serve_app.pd import short_form

    return short_form.written(path, args) if short_form.is_short(args) else path


def _prefill_decode(args: dict[str, Any]) -> list[Row]:
    from serve_app.pd.resolve import resolve

    resolved = resolve(args)
    found = [Row(f"args.{name}", value, resolved.origin.get(name, "given"))
             for name, value in origin.leaves(resolved.args)]  # fmt: skip
    found += _block("kv_transfer", resolved.settings, args, {"min_tokens": "derived from decode's KV block size"})
    found += _block(
        "endpoint",
        resolved.endpoint,
        args,
        {"request_s": "derived from kv_transfer.request_s", "max_in_flight": "derived from decode's max_num_seqs"},
    )
    return found + [Row("warning", warning, "derived") for warning in resolved.warnings]


def _block(name: str, settings: Any, args: dict[str, Any], derived: dict[str, str]) -> list[Row]:
    """A block of ours, every value of it."""
    given = args.get(name) or {}
    rows = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        why = "given" if given.get(field.name) is not None else derived.get(field.name, "default")
        rows.append(Row(f"args.{name}.{field.name}", list(value) if isinstance(value, tuple) else value, why))
    return rows


def _single(args: dict[str, Any]) -> list[Row]:
    from serve_app.app.single import resolve

    resolved = resolve(args)
    rows = [Row(f"args.{name}", value, resolved.origin.get(name, "given")) for name, value in _flat(resolved.args)]
    return rows + _block("endpoint", resolved.endpoint, args, {"max_in_flight": "derived from max_num_seqs"})


def _flat(whole: dict[str, Any]) -> list[tuple[str, Any]]:
    """Leaves, with the models of the list one by one."""
    found: list[tuple[str, Any]] = []
    for index, config in enumerate(whole["llm_configs"]):
        found += origin.leaves(config, f"llm_configs[{index}]")
    return found + origin.leaves({key: value for key, value in whole.items() if key != "llm_configs"})
