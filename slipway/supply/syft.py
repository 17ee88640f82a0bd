"""Holds the bill of materials against what syft finds in the image: two ways to the same list.

syft (https://github.com/anchore/syft) looks at the files, we look at the lock. Every .deb and wheel of the bill has to
be found, with its version; what is found besides has to be explained in docker/syft.toml.
"""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import GateRefused, UsageError
from slipway.supply.components import Component


@dataclass(frozen=True)
class Comparison:
    """missing: in the bill, not found. extra: found, neither in the bill nor explained. explained, unused: keys of the
    allow-list."""

    found: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    explained: int
    unused: tuple[str, ...]

    def refuse(self) -> None:
        """Raises GateRefused on any difference that nobody explained."""
        if self.missing or self.extra:
            lines = [f"  syft does not find {name}" for name in self.missing]
            lines += [f"  the bill lacks {name}" for name in self.extra]
            raise GateRefused(
                "bill of materials and image differ\n" + "\n".join(lines[:40]),
                why="a bill that leaves something out can't be searched for a vulnerability",
                remedy="lock it; or explain it in docker/syft.toml",
            )


def compare(found: Sequence[Component], report: Path, allow: Path) -> Comparison:
    """report: the output of `syft -o syft-json`. Raises UsageError for anything else."""
    try:
        artifacts = json.loads(report.read_text("utf-8"))["artifacts"]
        rows = [(str(a["type"]), str(a["name"]), str(a["version"]), _paths(a)) for a in artifacts]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"this is no output of `syft -o syft-json`: {error!r}", where=report) from None
    reasons: Mapping[str, str] = tomllib.loads(allow.read_text("utf-8"))["allow"]
    ours = {_key(_type(one.kind), one.artifact.name, one.artifact.version) for one in found if one.purpose == "image"}
    ours = {key for key in ours if key[0]}
    theirs = {_key(kind, name, version) for kind, name, version, _ in rows}
    used: set[str] = set()
    extra: list[str] = []
    explained = 0
    for kind, name, version, paths in rows:
        if _key(kind, name, version) in ours:
            continue
        keys = [key for key in reasons if any(fnmatch.fnmatchcase(f"{kind} {path}", key) for path in paths)]
        used |= set(keys)
        explained += bool(keys)
        if not keys:
            extra.append(f"{kind} {name} {version} ({paths[0] if paths else '?'})")
    missing = sorted(" ".join(key) for key in ours - theirs)
    return Comparison(len(rows), tuple(missing), tuple(sorted(extra)), explained, tuple(sorted(set(reasons) - used)))


def _paths(artifact: Mapping[str, list[Mapping[str, str]]]) -> list[str]:
    return [str(location["path"]) for location in artifact["locations"]]


def _type(kind: str) -> str:
    """Our kinds in syft's words; "" for what no tool can find: a source tarball is compiled, an installer unpacked."""
    return {"wheel": "python", "deb": "deb"}.get(kind, "")


def _key(kind: str, name: str, version: str) -> tuple[str, str, str]:
    return kind, re.sub(r"[-_.]+", "-", name).lower() if kind == "python" else name, version
