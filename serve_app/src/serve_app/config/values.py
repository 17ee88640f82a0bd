"""Is a YAML value of a kind that a key takes?"""

from __future__ import annotations

import difflib
from typing import Any

NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "list": "a list",
         "dict": "a mapping", "null": "null", "choice": "one of the choices"}  # fmt: skip


def fault(value: Any, kinds: list[str], choices: list[str] | None = None) -> tuple[str, str | None] | None:
    """What is wrong with a value and the nearest right thing, or None when it is fine.

    null is always fine: Ray and vLLM take it as "the default". A whole number is a number; true is no number.
    """
    if value is None or "any" in kinds or any(_is(value, kind, choices or []) for kind in kinds):
        return None
    if choices and isinstance(value, str) and not set(kinds) - {"null", "choice"}:
        near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
        listed = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
        return f"{value!r} is not one of {listed}", f"did you mean {near[0]}?" if near else None
    wanted = [NAMES[kind] for kind in kinds if kind not in ("null", "choice")]
    wanted += [f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]] if choices else []
    return f"must be {' or '.join(wanted)}, not {_show(value)}", _remedy(value, kinds)


def _is(value: Any, kind: str, choices: list[str]) -> bool:
    if kind == "choice":
        return value in choices
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    types: dict[str, type | tuple[type, ...]] = {"bool": bool, "str": str, "list": (list, tuple), "dict": dict}
    return kind in types and isinstance(value, types[kind])


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def _remedy(value: Any, kinds: list[str]) -> str | None:
    if isinstance(value, str):
        plain = value.strip().lower()
        if "bool" in kinds and plain in ("yes", "no", "on", "off", "true", "false"):
            return f"write {'true' if plain in ('yes', 'on', 'true') else 'false'} without quotes"
        if plain.replace(".", "", 1).replace("-", "", 1).isdigit():
            return f"write {value.strip()} without quotes"
    elif isinstance(value, (int, float)) and "str" in kinds:
        return f'write "{value}" in quotes'
    return None
