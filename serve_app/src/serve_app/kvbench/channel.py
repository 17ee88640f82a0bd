"""The control connection between the two sides: JSON objects, one a line."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from serve_app.errors import ServeAppError, UsageError

LONGEST = 16 << 20
"""Bytes of a line: the metadata of an agent with many regions takes kilobytes."""

ANSWER_S = 600.0


class Lost(ServeAppError):
    """The other side is gone, or talks something else."""


class Channel:
    """A connected socket. `ask` raises Lost with the other side's own words when it could not do it."""

    def __init__(self, connection: socket.socket, timeout_s: float = ANSWER_S) -> None:
        connection.settimeout(timeout_s)
        self._connection = connection
        self._lines = connection.makefile("rb")

    def send(self, **message: Any) -> None:
        """Raises Lost."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Lost(f"the other side is gone: {error}") from error

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises Lost."""
        try:
            line = self._lines.readline(LONGEST)
            message = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise Lost(f"the other side is gone or no kvbench: {error}") from error
        if message is not None and not isinstance(message, dict):
            raise Lost("the other side is no kvbench")
        return message

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send, and wait for the answer."""
        self.send(**message)
        answer = self.receive()
        if answer is None:
            raise Lost("the other side ended")
        if "error" in answer:
            raise Lost(f"on the other side: {answer['error']}")
        return answer

    def fileno(self) -> int:
        """For passing the connection to another process."""
        return self._connection.fileno()

    def local_host(self) -> str:
        """The address by which the other side reaches this one."""
        return str(self._connection.getsockname()[0])

    def close(self) -> None:
        """End the connection."""
        self._lines.close()
        self._connection.close()


def connect(host: str, port: int, wait_s: float = 30.0) -> Channel:
    """Raises Lost when nobody listens there within wait_s."""
    end = time.monotonic() + wait_s
    while True:
        try:
            return Channel(socket.create_connection((host, port), timeout=5))
        except OSError as error:
            if time.monotonic() > end:
                raise Lost(f"nobody answers at {host}:{port}: {error}") from error
            time.sleep(0.1)


def split(text: str, default_host: str = "") -> tuple[str, int]:
    """HOST:PORT, [HOST]:PORT or PORT. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise UsageError(f"{text!r} is no HOST:PORT")
    return host.strip("[]") or default_host, int(port)
