"""Fills values into a configuration and remembers where each came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from serve_app.config.document import join


@dataclass
class Filler:
    """data: a mapping that is filled in place. prefix: its path in the whole. origin: path → why, filled too.

    A path that is not in `origin` was given by the user.
    """

    data: dict[str, Any]
    prefix: str
    origin: dict[str, str]

    def set(self, path: str, value: Any, why: str) -> None:
        """Sets a value that is not there (or null), making the mappings on the way."""
        at = self.data
        *parents, last = path.split(".")
        for parent in parents:
            if not isinstance(at.get(parent), dict):
                at[parent] = {}
            at = at[parent]
        if at.get(last) is None:
            at[last] = value
            self.origin[f"{self.prefix}.{path}"] = why

    def note_changes(self, before: dict[str, Any], why: str, other: dict[str, str] | None = None) -> None:
        """Notes everything that differs from `before` as coming from `why`; `other`: key → a why of its own."""
        for key, value in self.data.items():
            _note(before.get(key), value, join(self.prefix, key), (other or {}).get(key, why), self.origin)


def _note(before: Any, after: Any, path: str, why: str, origin: dict[str, str]) -> None:
    if isinstance(after, dict) and isinstance(before, (dict, type(None))):
        for key, value in after.items():
            _note((before or {}).get(key), value, join(path, key), why, origin)
    elif before != after:
        origin[path] = why


def leaves(data: Any, path: str = "") -> list[tuple[str, Any]]:
    """(path, value) of everything that is no mapping, in order; empty mappings too. Lists count as one value."""
    if isinstance(data, dict) and data:
        return [found for key, value in data.items() for found in leaves(value, join(path, key))]
    return [(path, data)]
