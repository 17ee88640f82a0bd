"""Starts a job in its isolation and hands over what it writes to stdout; stderr goes to a log file."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from slipway.errors import BuildFailed
from slipway.host import process
from slipway.layers.tar import MTIME
from slipway.sandbox.isolation import Isolation
from slipway.sources.outcome import Cancelled

ROOT = Path(__file__).resolve().parents[2]
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from slipway.sandbox.inside import main; main()"
ENVIRONMENT = {
    "PATH": ":".join(process.SYSTEM_PATH),
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
    "SOURCE_DATE_EPOCH": str(MTIME),
    "PYTHONHASHSEED": "0",
    "PERL_HASH_SEED": "0",
    "PERL_PERTURB_KEYS": "0",
}
"""All that a job's environment holds: nothing of the caller's. Seeds are fixed, since hash orders reach files."""


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def job(
    isolation: Isolation,
    entry: str,
    arguments: Mapping[str, Any],
    *,
    log: Path,
    what: str,
    cancelled: threading.Event | None = None,
    heard: Callable[[str], None] | None = None,
) -> Iterator[IO[bytes]]:
    """Run `entry` ("module:function") with `arguments` (JSON-ready) within `isolation`; gives its stdout.

    Leaving the block waits for the job, or kills it when the block failed. Raises BuildFailed with the end of the
    log when it fails, Cancelled when `cancelled` was set meanwhile. `what` names the work in messages; `heard` is
    told the lines of the log as they come, in a thread of its own.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    document = json.dumps({"entry": entry, "strong": isolation.strong, "arguments": dict(arguments)})
    argv = isolation.wrap([sys.executable, "-I", "-B", "-X", "utf8", "-c", _START, str(ROOT), document])
    stopped = threading.Event()
    with log.open("wb") as errors:
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=ENVIRONMENT,
                cwd="/",
                umask=0o022,
                start_new_session=True,
            )
        except FileNotFoundError as problem:
            raise process.missing(str(problem.filename)) from problem
        watcher = threading.Thread(target=_watch, args=(child, log, cancelled, heard, stopped), daemon=True)
        watcher.start()
        try:
            if child.stdout is None:
                raise BuildFailed(f"{what}: no pipe to the job", where=entry)
            with child.stdout as out:
                yield out
            code = child.wait()
        except BaseException:
            if cancelled is not None and cancelled.is_set():
                raise Cancelled(what) from None
            raise
        finally:
            stopped.set()
            with contextlib.suppress(ProcessLookupError):
                if child.poll() is None:
                    child.kill()
            child.wait()
            watcher.join()
    if code != 0:
        if cancelled is not None and cancelled.is_set():
            raise Cancelled(what)
        text = log.read_text(errors="replace")
        how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        raise BuildFailed(f"{what} failed: {how}\n{process.last_lines(text, 20)}", where=log)


def _watch(
    child: subprocess.Popen[bytes],
    log: Path,
    cancelled: threading.Event | None,
    heard: Callable[[str], None] | None,
    stopped: threading.Event,
) -> None:
    """End the job when the build is cancelled (whoever reads its output then gets to its end); pass its words on."""
    with log.open(errors="replace") as words:
        while not stopped.wait(0.1):
            if cancelled is not None and cancelled.is_set():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, 9)
                return
            while heard is not None and (line := words.readline()):
                heard(line)
