"""Waits for initiators and starts for each what it asks for: a target, or the server of a raw measurement."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from serve_app.errors import ServeAppError
from serve_app.kvbench import raw
from serve_app.kvbench.channel import Channel
from serve_app.kvbench.plan import Plan


class Server:
    """Listens on host:port (0: a free one). One session at a time: two would measure each other."""

    def __init__(self, host: str, port: int) -> None:
        try:
            self._listener = socket.create_server((host, port))
        except OSError as error:
            raise ServeAppError(f"can't listen on {host}:{port}: {error}") from error
        self.port: int = self._listener.getsockname()[1]

    def run(self, say: Callable[[str], None]) -> None:
        """Until an initiator says that it is through."""
        while True:
            connection, peer = self._listener.accept()
            channel = Channel(connection)
            try:
                message = channel.receive() or {}
                if message.get("do") == "end":
                    return
                say(f"{peer[0]}: {message.get('do')} {(message.get('plan') or message).get('backend', '')}".rstrip())
                self._session(channel, message)
            except ServeAppError as error:
                say(f"{peer[0]}: {error}")
            finally:
                channel.close()

    @staticmethod
    def _session(channel: Channel, message: dict[str, object]) -> None:
        if message.get("do") == "clock":
            channel.send(time=time.time())
        elif message.get("do") == "raw":
            raw.serve(channel, message)
        elif message.get("do") == "plan" and isinstance(message.get("plan"), dict):
            plan = Plan.of(dict(message["plan"]))  # type: ignore[call-overload]
            target(channel, plan)
        else:
            channel.send(error=f"{message.get('do')!r} is nothing that kvbench does")


def target(channel: Channel, plan: Plan) -> None:
    """A process of its own for each plan: a backend that dies takes nothing along, and UCX reads its variables once."""
    more = {"UCX_TLS": plan.ucx_tls} if plan.ucx_tls else {}
    command = [sys.executable, "-m", "serve_app.kvbench.target", str(channel.fileno())]
    process = subprocess.run(
        command, input=json.dumps(plan.as_json()).encode(), pass_fds=[channel.fileno()], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, env={**os.environ, **more}, check=False,
    )  # fmt: skip
    if process.returncode < 0:
        channel.send(error=f"the target died of signal {-process.returncode}: {last(process.stderr)}")


def last(output: bytes, count: int = 400) -> str:
    """The end of what a process said, on one line."""
    return " ".join(output.decode(errors="replace").split())[-count:]
