"""Finding and ending the processes below this one.

Ray and vLLM start processes that start processes, and some outlive their parents. The supervisor makes itself their
"child subreaper" (prctl(2)): whatever loses its parent becomes its child, so that "everything below me" is complete,
with or without an init process in the container.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PROC = Path("/proc")


def become_subreaper() -> None:
    """Orphans below this process become its children. Not on Linux: nothing happens."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(sign: int = signal.SIGTERM) -> None:
    """This process gets `sign` when its parent ends, also when that was killed."""
    _prctl(PR_SET_PDEATHSIG, sign)


def _prctl(option: int, value: int) -> None:
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


def below(root: int) -> list[int]:
    """Ids of all processes below `root`, zombies left out; parents come before their children."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            parent, state = _parent_and_state(entry)
            if parent and state != "Z":
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(0), []):
            found.append(child)
            waiting.append(child)
    return found


def _parent_and_state(process: Path) -> tuple[int, str]:
    try:
        text = (process / "stat").read_bytes()
    except OSError:
        return 0, ""
    # The name stands in parentheses and may hold any character, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[1]), fields[0].decode()


def _is_tracker(pid: int) -> bool:
    try:
        return b"multiprocessing.resource_tracker" in (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


def send(pids: list[int], sign: int) -> None:
    """Signals processes; one that is gone is no error."""
    for pid in pids:
        try:
            os.kill(pid, sign)
        except (ProcessLookupError, PermissionError):
            continue


def reap() -> dict[int, int]:
    """Collects children that have ended: id → exit code, negative for a signal."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def end_all(root: int, grace_s: float, impatient: Callable[[], bool] = lambda: False) -> int:
    """Ends everything below `root`: SIGTERM, after `grace_s` seconds SIGKILL. The number that had to be killed.

    impatient: asked while waiting; true shortens the grace to nothing (a second signal).
    """
    send(below(root), signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and not impatient():
        reap()
        if not below(root):
            return 0
        time.sleep(0.05)
    killed: set[int] = set()
    for attempt in range(100):  # a process may be born while the others are being killed
        left = below(root)
        if not left:
            break
        # multiprocessing's tracker removes what the others leave in /dev/shm, then ends by itself: killed last.
        others = [pid for pid in left if not _is_tracker(pid)]
        if others or attempt > 40:
            killed |= set(others or left)
            send(others or left, signal.SIGKILL)
        time.sleep(0.05)
        reap()
    return len(killed)
