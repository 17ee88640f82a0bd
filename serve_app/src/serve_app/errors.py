"""Errors that end a command with a message instead of a traceback, and the exit codes.

Codes: 0 done, or stopped by SIGTERM · 1 the service failed · 2 wrong usage or configuration · 3 something is missing on
this machine · 130 stopped by SIGINT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_MISSING = 3
EXIT_INTERRUPTED = 130


class ServeAppError(Exception):
    """Base. The text is for the user: what happened and what to do."""

    exit_code = EXIT_FAILED


class UsageError(ServeAppError):
    """Wrong arguments (exit 2)."""

    exit_code = EXIT_USAGE


class MissingError(ServeAppError):
    """Something this machine lacks: a GPU, a file, a writable folder (exit 3)."""

    exit_code = EXIT_MISSING


@dataclass(frozen=True)
class Problem:
    """One finding of a validation that gathers all of them.

    path: where in the document, as `applications[0].args.llm_configs[0].engine_kwargs.dtype`; "" is the whole of it
    what: what is wrong, no full stop
    remedy: the nearest right thing, where there is one
    line: line in the file, counted from 1; 0 when it is not known
    """

    path: str
    what: str
    remedy: str | None = None
    line: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        path = f"{self.path}: " if self.path else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{path}{self.what}{remedy}"


class ConfigError(UsageError):
    """A configuration with one or more problems, all of them shown at once (exit 2)."""

    def __init__(self, problems: Sequence[Problem], source: str = "configuration") -> None:
        self.problems = tuple(problems)
        self.source = source
        count = len(self.problems)
        head = f"{source}: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))

    def __reduce__(self) -> tuple[object, ...]:
        # Ray carries exceptions between processes by pickle, which would call __init__ with the text only.
        return (type(self), (self.problems, self.source))
