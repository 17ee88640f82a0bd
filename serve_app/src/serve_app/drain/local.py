"""How `serve_app drain` finds the service of this machine: one small JSON file a running service.

{"pid": …, "port": …, "ready": true, "drained": false, "drain_s": 20.0}, written by the supervisor, removed at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Running:
    """A service. pid: the supervisor's. drained: told to take no requests, and none runs any more."""

    pid: int
    port: int
    drain_s: float
    ready: bool = False
    drained: bool = False


def folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files are: $SERVE_APP_RUN, or a folder of this user in the temporary one."""
    return Path(environ.get("SERVE_APP_RUN") or f"{tempfile.gettempdir()}/serve_app-run-{os.getuid()}")


def write(running: Running, where: Path | None = None) -> Path | None:
    """Writes or replaces a service's file. None where that can't be: the service runs all the same."""
    where = where or folder()
    path = where / f"{running.pid}.json"
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(running)))
        new.replace(path)
    except OSError:
        return None
    return path


def change(path: Path | None, **facts: bool) -> None:
    """Changes what a file says."""
    found = None if path is None else read(path)
    if path is not None and found is not None:
        write(replace(found, **facts), path.parent)


def read(path: Path) -> Running | None:
    """A file's service; None when there is none of that name, or it has ended."""
    try:
        found = Running(**json.loads(path.read_text()))
        os.kill(found.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return found


def all_of(where: Path | None = None) -> list[tuple[Path, Running]]:
    """Every service that runs."""
    where = where or folder()
    found = [(path, read(path)) for path in sorted(where.glob("*.json"))] if where.is_dir() else []
    return [(path, running) for path, running in found if running is not None]


def remove(path: Path | None) -> None:
    """The service has ended."""
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()
