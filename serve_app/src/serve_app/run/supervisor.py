"""The process the user starts: it starts the runner, passes its words on, and ends everything on a signal.

It imports neither Ray nor vLLM, so a signal is answered at once, also while the runner is deep in an import or in
Ray's C++ code, which installs signal handlers of its own. On SIGTERM or SIGINT a running service gets drain_s seconds
to end its requests; one that still loads is ended at once. A second signal ends the patience. SIGUSR1 and SIGUSR2
(`serve_app drain`) are the runner's business.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serve_app.drain import local
from serve_app.errors import EXIT_FAILED, EXIT_INTERRUPTED
from serve_app.run import processes, shared_memory
from serve_app.run.phases import Reporter

TAKE_DOWN_S = 5.0
"""How long it may take to take Ray down, after the requests have ended."""

GRACE_S = 4.0
"""How long what is left may take after SIGTERM. With endpoint.drain_s's default of 20 s it is all under the 30 s that
Kubernetes gives a pod (terminationGracePeriodSeconds, to be raised with drain_s)."""


@dataclass
class Supervisor:
    """Runs `command`, with `spec` as its standard input.

    Its events come as JSON lines on a pipe whose number stands in $SERVE_APP_EVENTS. port: of the endpoint. drain_s:
    how long running requests may take to end.
    """

    command: list[str]
    spec: bytes
    report: Reporter
    port: int = 0
    drain_s: float = 20.0
    signals: list[int] = field(default_factory=list)
    ready: bool = False
    _buffers: dict[int, bytes] = field(default_factory=dict)
    _shared: set[Path] = field(default_factory=set)
    _file: Path | None = None
    _runner: int = 0

    def run(self) -> int:
        """Until the runner ends or a signal came; the exit code."""
        processes.become_subreaper()
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write)
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sign, lambda number, _frame: self.signals.append(number))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for sign in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(sign, lambda number, _frame: self._pass_on(number))
        self._file = local.write(local.Running(os.getpid(), self.port, self.drain_s))
        events_read, events_write = os.pipe()
        wrap = self.report.format == "json"
        runner = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if wrap else sys.stderr,
            stderr=subprocess.STDOUT if wrap else None,
            pass_fds=[events_write],
            env={**os.environ, "SERVE_APP_EVENTS": str(events_write)},
            start_new_session=True,  # a terminal's Ctrl-C reaches this process only, which then decides
        )
        self._runner = runner.pid
        os.close(events_write)
        if runner.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # a runner that has ended by now says why by its code
                runner.stdin.write(self.spec)  # smaller than a pipe's buffer in any sane case; read at once
            with contextlib.suppress(BrokenPipeError):
                runner.stdin.close()
        channels = {events_read: self._on_event}
        if runner.stdout is not None:
            channels[runner.stdout.fileno()] = self.report.foreign
        try:
            code = self._watch(runner.pid, wake_read, channels)
        finally:
            local.remove(self._file)
        runner.returncode = code  # reaped here, not by Popen
        return code

    def _pass_on(self, number: int) -> None:
        """To a runner that listens: before, the signal would end it."""
        if self.ready and not self.signals:
            processes.send([self._runner], number)

    def _watch(self, runner: int, wake: int, channels: dict[int, Any]) -> int:
        with selectors.DefaultSelector() as selector:
            for number in (wake, *channels):
                os.set_blocking(number, False)
                selector.register(number, selectors.EVENT_READ)
            deadline: float | None = None
            ended: int | None = None
            while ended is None:
                timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
                for key, _ in selector.select(timeout):
                    if not self._read(key.fd, channels.get(key.fd)):
                        selector.unregister(key.fd)
                ended = processes.reap().get(runner)
                if self.signals and deadline is None:
                    deadline = self._begin_to_stop(runner)
                if deadline is not None and (len(self.signals) > 1 or time.monotonic() >= deadline):
                    break
            for number, receive in channels.items():
                self._read(number, receive)
        return self._finish(ended)

    def _begin_to_stop(self, runner: int) -> float:
        """Tells the runner; until when it may take."""
        self._shared |= shared_memory.of(processes.below(os.getpid()))
        name = signal.Signals(self.signals[0]).name
        if not self.ready:
            self.report.event("stopping", f"{name} while loading: ending at once", signal=name)
            return time.monotonic()
        self.report.event("stopping", f"{name}: requests may end, {self.drain_s:g} s at most", signal=name)
        processes.send([runner], signal.SIGTERM)
        return time.monotonic() + self.drain_s + TAKE_DOWN_S

    def _finish(self, ended: int | None) -> int:
        self._shared |= shared_memory.of(processes.below(os.getpid()))
        killed = processes.end_all(os.getpid(), GRACE_S, lambda: len(self.signals) > 1)
        shared_memory.remove(self._shared)
        if self.signals:
            # 0: being told to stop is no failure. Ctrl-C is: a script around it should stop as well.
            code = EXIT_INTERRUPTED if self.signals[0] == signal.SIGINT else 0
        else:
            code = EXIT_FAILED if ended is None or ended < 0 else ended
            if ended is not None and ended < 0:
                self.report.event("failed", f"the runner was ended by {signal.Signals(-ended).name}")
        self.report.event("stopped", f"exit code {code}", exit_code=code, killed=killed)
        return code

    def _read(self, number: int, receive: Any) -> bool:
        """Reads what is there and passes whole lines on; false at the end."""
        while True:
            try:
                block = os.read(number, 65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not block:
                return False
            if receive is None:
                continue  # the wake-up pipe: its bytes only end the wait
            *lines, rest = (self._buffers.get(number, b"") + block).split(b"\n")
            self._buffers[number] = rest
            for line in lines:
                receive(line.decode("utf-8", "replace"))

    def _on_event(self, line: str) -> None:
        event: dict[str, Any] = json.loads(line)
        if event.get("name") == "ready":
            self.ready = True
            local.change(self._file, ready=True)
        elif event.get("name") in ("drained", "taking"):
            local.change(self._file, drained=event["name"] == "drained")
        self.report.event(event.pop("name"), event.pop("text"), **event)
