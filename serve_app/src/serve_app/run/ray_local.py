"""Starts a Ray of our own on this machine, or joins a given cluster."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serve_app.errors import MissingError

OBJECT_STORE_BYTES = 200_000_000
"""Requests and answers are small; Ray would take 30 % of the memory."""

STARTS = 3
TIMED_OUT = "timed out during startup"
"""In the text of Ray's exception, which has no class of its own (ray/_private/node.py)."""

OBJECT_STORE_LEAST = 80_000_000
"""Ray refuses less than 78.6 MB."""


def session_folder() -> Path:
    """A short, writable folder for Ray's session: its sockets' paths must stay under 107 characters."""
    base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    try:
        return Path(tempfile.mkdtemp(prefix="sa-", dir=base))
    except OSError as error:
        raise MissingError(f"{base} is not writable ({error}); set RAY_TMPDIR to a short path that is") from error


def use_token() -> None:
    """Joins with a token where there is one.

    Ray 2.60 gives every cluster that `ray start --head` or ray.init makes a token, but a process that joins sends its
    own only with RAY_AUTH_MODE=token, and is refused otherwise. A cluster without tokens ignores it.
    """
    there = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if "RAY_AUTH_MODE" not in os.environ and (there or (Path.home() / ".ray" / "auth_token").exists()):
        os.environ["RAY_AUTH_MODE"] = "token"


def patiently(start: Callable[[], object], clean: Callable[[], object], say: Callable[..., None]) -> None:
    """Starts Ray, and once more where the machine was too busy: Ray gives its node 30 s, which no setting changes.

    clean: takes away what a start that failed has left. Everything else is raised at once.
    """
    for attempt in range(1, STARTS + 1):
        try:
            start()
            return
        except Exception as error:
            clean()
            if TIMED_OUT not in str(error) or attempt == STARTS:
                raise
            say("warning", f"Ray's node did not start within its 30 s; once more ({attempt + 1} of {STARTS})")


def options(logical_cpus: int, session: Path) -> dict[str, Any]:
    """Arguments of ray.init for a Ray that is this application's only.

    logical_cpus: Ray counts CPUs for placement only. A machine with two cores must still place an ingress, an engine
    and its workers, so what is promised is what the application asks for.
    """
    # Ray listens on all interfaces whatever it is told (a node address of 127.0.0.1 it replaces by the machine's own).
    # Its ports answer only to this token, which never touches a
    # disk; without it Ray would write one to ~/.ray, which may not be writable.
    if os.environ.get("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    memory, folder = _object_store()
    return {
        "address": "local",
        "num_cpus": logical_cpus,
        "include_dashboard": False,
        "object_store_memory": memory,
        "_temp_dir": str(session),
        **({"_plasma_directory": folder} if folder else {}),
        # Idle workers started ahead would take the cores from the replicas' imports. And replicas are the service, not
        # batch work to be stepped back for everything else on the machine (Ray's default niceness is 15).
        "_system_config": {"prestart_worker_first_driver": False, "worker_niceness": 0},
    }


def _object_store() -> tuple[int, str | None]:
    """Bytes, and a folder where /dev/shm is too small (64 MB by Docker's default)."""
    try:
        free = shutil.disk_usage("/dev/shm").free  # noqa: S108
    except OSError:
        free = 0
    if free >= 2 * OBJECT_STORE_BYTES:
        return OBJECT_STORE_BYTES, None
    if free >= 2 * OBJECT_STORE_LEAST:
        return OBJECT_STORE_LEAST, None
    return OBJECT_STORE_LEAST, tempfile.gettempdir()
