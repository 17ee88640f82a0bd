"""Shared memory that killed processes leave in /dev/shm.

vLLM's queues between its processes are files there. Ray ends engines with SIGKILL, so nobody removes them: some per
start, for ever, on a machine that is no throw-away container. What our processes have open when the stop begins, and
nobody uses after it, is ours to remove.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = "/dev/shm/"  # noqa: S108
PROC = Path("/proc")


def of(pids: list[int]) -> set[Path]:
    """The files of /dev/shm that these processes have mapped."""
    return {path for pid in pids for path in _mapped(PROC / str(pid))}


def _mapped(process: Path) -> set[Path]:
    try:
        lines = (process / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    names = (line[line.index(FOLDER) :] for line in lines if FOLDER in line)
    return {Path(name) for name in names if not name.endswith(" (deleted)")}


def remove(files: set[Path]) -> None:
    """Removes those of the files that are still there and that no process has mapped."""
    if not files:
        return
    used = of([int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()])
    for path in files - used:
        path.unlink(missing_ok=True)
