"""What differs between two locks, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slipway.errors import WrongArtifact
from slipway.lock.model import Artifact, Deb, Lock
from slipway.progress import size_text

Kind = Literal["added", "removed", "bumped", "replaced", "moved"]
_MARKS: Mapping[Kind, str] = {"added": "+", "removed": "-", "bumped": "^", "replaced": "!", "moved": "~"}


@dataclass(frozen=True)
class Change:
    """One artifact that differs. replaced: same version, other bytes; moved: same bytes, other place or purpose."""

    group: str
    name: str
    kind: Kind
    old: Artifact | None
    new: Artifact | None

    @property
    def bytes(self) -> int:
        """What has to be downloaded for it."""
        return self.new.size if self.new is not None and self.kind != "moved" else 0

    def __str__(self) -> str:
        versions = " → ".join(dict.fromkeys(side.version for side in (self.old, self.new) if side is not None))
        text = f"{_MARKS[self.kind]} {self.group:6} {self.name} {versions}"
        if self.kind == "moved":
            return f"{text} (same bytes, elsewhere in the archive or for another set)"
        return text + (f" ({size_text(self.new.size)})" if self.new is not None else "")

    def as_json(self) -> dict[str, object]:
        return {
            "group": self.group,
            "name": self.name,
            "kind": self.kind,
            "old": self.old.version if self.old else None,
            "new": self.new.version if self.new else None,
            "bytes": self.bytes,
        }


def changes(old: Lock | None, new: Lock) -> tuple[Change, ...]:
    """What a new lock changes against the old one (None: everything is new), by group and name."""
    groups = (("wheel", "wheels"), ("deb", "debs"), ("source", "sources"), ("installer", "installers"))
    found: list[Change] = []
    for group, attribute in groups:
        before = _by_name(getattr(old, attribute) if old else ())
        after = _by_name(getattr(new, attribute))
        for name in sorted({*before, *after}):
            change = _change(group, name, before.get(name), after.get(name))
            if change is not None:
                found.append(change)
    return tuple(found)


def _by_name(artifacts: Iterable[Artifact]) -> dict[str, Artifact]:
    """A package may stand once for each architecture."""
    return {f"{a.name}:{a.arch}" if isinstance(a, Deb) and a.arch not in ("all", "") else a.name: a for a in artifacts}


def _change(group: str, name: str, old: Artifact | None, new: Artifact | None) -> Change | None:
    name = name.partition(":")[0]
    if old is None:
        return Change(group, name, "added", old, new)
    if new is None:
        return Change(group, name, "removed", old, new)
    if old == new:
        return None
    if old.sha256 == new.sha256:
        return Change(group, name, "moved", old, new)
    return Change(group, name, "replaced" if old.version == new.version else "bumped", old, new)


def refuse_other_bytes(found: Sequence[Change]) -> None:
    """Raises WrongArtifact when a file of the old lock has other bytes now: a published file never changes."""
    for change in found:
        if change.old and change.new and change.old.file == change.new.file and change.old.sha256 != change.new.sha256:
            if getattr(change.new, "made", False):
                continue  # the driver's own work: it changes with the driver
            name = "debian" if change.group == "deb" else change.name
            raise WrongArtifact(
                f"{change.new.label} has other bytes than the lock says",
                why=f"locked {change.old.sha256}, offered {change.new.sha256}",
                remedy="find out why; if the new ones are the right ones, "
                f"`python3 build.py lock --upgrade {name}` takes them",
            )


def summary(label: str, found: Sequence[Change], new: Lock) -> str:
    """The changes as lines, with a last line of totals."""
    artifacts = new.artifacts
    total = f"{label}: {len(artifacts)} artifacts, {size_text(sum(artifact.size for artifact in artifacts))}"
    if not found:
        return f"{total}; nothing changed"
    counts = [(kind, sum(change.kind == kind for change in found)) for kind in _MARKS]
    told = ", ".join(f"{count} {kind}" for kind, count in counts if count)
    fetch = size_text(sum(change.bytes for change in found))
    return "\n".join([*map(str, found), f"{total}; {told}; {fetch} to fetch"])
