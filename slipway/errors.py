"""Errors a user can meet.

Every error says what happened, where, why it matters and what to do, and knows the exit code it ends the
command with. The codes are the command line's contract (docs/design.md, "The command line").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SlipwayError(Exception):
    """Base of all errors that end a command with a message instead of a traceback.

    what:   one sentence, no full stop needed, of what happened
    where:  file, line, path or address it happened at
    why:    what would have gone wrong if this had been let through
    remedy: what to do now, a command where there is one
    """

    exit_code = 1

    def __init__(
        self, what: str, *, where: object | None = None, why: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.where is not None:
            lines.append(f"  where: {self.where}")
        if self.why is not None:
            lines.append(f"  why it matters: {self.why}")
        if self.remedy is not None:
            lines.append(f"  what to do: {self.remedy}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """The same facts as a JSON-ready object, for `--json`."""
        return {
            "error": type(self).__name__,
            "exit_code": self.exit_code,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "remedy": self.remedy,
        }


class BuildFailed(SlipwayError):
    """Something went wrong while an image was being made (exit 1)."""

    exit_code = 1


class UsageError(SlipwayError):
    """Wrong arguments, or pins that are malformed or can't go together (exit 2)."""

    exit_code = 2


class MissingError(SlipwayError):
    """Something this machine lacks: a tool, a right, disk space, an artifact that can't be had (exit 3)."""

    exit_code = 3


class WrongArtifact(SlipwayError):
    """An artifact is not the pinned one, or is gone everywhere (exit 4)."""

    exit_code = 4


class PushFailed(SlipwayError):
    """A push did not end; what is already in the registry stays usable (exit 5)."""

    exit_code = 5


class GateRefused(SlipwayError):
    """A gate said no to a built image (exit 6)."""

    exit_code = 6


@dataclass(frozen=True)
class Problem:
    """One finding of a validation that gathers all of them. `line` counts from 1; 0 means the whole file."""

    path: str
    line: int
    what: str
    remedy: str | None = None

    def __str__(self) -> str:
        at = f"{self.path}:{self.line}" if self.line else self.path
        return f"{at}: {self.what}" + (f" ({self.remedy})" if self.remedy else "")


class InvalidInput(UsageError):
    """A file with one or more problems: all of them are shown at once (exit 2)."""

    def __init__(self, what: str, problems: Sequence[Problem]) -> None:
        super().__init__(what)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"  {problem}" for problem in self.problems)])

    def as_json(self) -> dict[str, object]:
        document = super().as_json()
        document["problems"] = [
            {"path": p.path, "line": p.line, "what": p.what, "remedy": p.remedy} for p in self.problems
        ]
        return document
