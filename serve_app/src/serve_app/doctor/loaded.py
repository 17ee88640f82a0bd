"""What a process has mapped after it made one of NIXL's backends: asked of a process of its own, which may die of it.

`python -m serve_app.doctor.loaded BACKEND` is that process: one JSON object on standard output, NIXL's log on standard
error. One process a backend, because that is what an engine has.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serve_app.kvbench.transport import NO_HMEM

BACKENDS = ("UCX", "LIBFABRIC")
LIMIT_S = 120.0


@dataclass(frozen=True)
class Loaded:
    """One backend. error: why it can't be made here, "" when it can. libraries: files mapped. log: NIXL's own words.
    died: how the process ended, if not well.
    """

    error: str = ""
    libraries: tuple[str, ...] = ()
    log: str = ""
    died: str = ""

    def files(self, name: str) -> list[str]:
        """Mapped files of a library, by its name without version: libfabric → libfabric.so.1.28.0, libfabric-3a1.so."""
        pattern = re.compile(rf"{re.escape(name)}(-[0-9a-f]+)?\.so")
        return sorted(path for path in self.libraries if pattern.match(Path(path).name))

    @property
    def without_hmem(self) -> bool:
        """libfabric gave a provider that can't reach GPU memory."""
        return NO_HMEM in self.log


def load() -> Mapping[str, Loaded]:
    """All backends, side by side. Never raises."""
    with ThreadPoolExecutor(len(BACKENDS)) as pool:
        return dict(zip(BACKENDS, pool.map(_load, BACKENDS), strict=True))


def _load(backend: str) -> Loaded:
    environment = {**os.environ, "NIXL_LOG_LEVEL": "INFO"}
    command = [sys.executable, "-m", "serve_app.doctor.loaded", backend]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return Loaded(died=f"not through after {LIMIT_S:.0f} s")
    return parse(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def parse(code: int, out: str, log: str) -> Loaded:
    """From what the process left."""
    died = f"signal {-code}" if code < 0 else f"exit code {code}" if code else ""
    try:
        found = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        return Loaded(log=log, died=died or "it said nothing")
    return Loaded(str(found["error"]), tuple(found["libraries"]), log, died)


def _make(backend: str) -> dict[str, Any]:
    error = ""
    try:
        from nixl._api import nixl_agent, nixl_agent_config

        agent = nixl_agent("doctor", nixl_agent_config(backends=[]))
        try:
            agent.create_backend(backend, {})
        except Exception as problem:  # noqa: BLE001 - NIXL's errors have no common class
            error = _reason(backend) or f"{type(problem).__name__}: {problem}"
    except Exception as problem:  # noqa: BLE001 - whatever keeps NIXL from being imported is the finding
        error = f"{type(problem).__name__}: {problem}"
    return {"error": error, "libraries": _mapped()}


def _reason(backend: str) -> str:
    """What ld.so says about a plugin that NIXL could not load: NIXL itself says only NOT_FOUND."""
    import nixl

    site = Path(nixl.__file__).parents[1]
    for file in sorted(site.glob(f"nixl_cu*.libs/nixl/libplugin_{backend}.so")):
        try:
            ctypes.CDLL(str(file))
        except OSError as error:
            return str(error)
    return ""


def _mapped() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if ".so" in line and len(line.split(maxsplit=5)) == 6})


def main() -> int:
    """Prints what there is."""
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no result
    result.write(json.dumps(_make(sys.argv[1])) + "\n")
    result.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
