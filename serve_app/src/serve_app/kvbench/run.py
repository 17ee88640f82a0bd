"""One report: the backends in turn, each in processes of its own, then the raw link."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from serve_app.errors import ServeAppError
from serve_app.kvbench import channel as channels
from serve_app.kvbench import raw, transport
from serve_app.kvbench.channel import Lost
from serve_app.kvbench.plan import Plan
from serve_app.kvbench.report import Report, Row
from serve_app.kvbench.server import Server, last

Say = Callable[[str], None]
BACKEND_S = 1200.0


@contextlib.contextmanager
def local_server() -> Iterator[tuple[str, int]]:
    """A server in this process, for the time of the block: the other side is this machine.

    It listens on this machine's own address, if it has one besides loopback: libfabric's tcp does not use loopback.
    """
    server = Server(own_address(), 0)
    host = own_address()
    thread = threading.Thread(target=server.run, args=[lambda _text: None], daemon=True)
    thread.start()
    try:
        yield host, server.port
    finally:
        end(host, server.port)
        thread.join(10)


def own_address() -> str:
    """This machine's address towards others; loopback where it has none. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1, RFC 5737
            return str(probe.getsockname()[0])
        except OSError:
            pass
    with contextlib.suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def end(host: str, port: int) -> None:
    """Tell a server that no more is to come."""
    with contextlib.suppress(ServeAppError):
        channel = channels.connect(host, port, 5)
        channel.send(do="end")
        channel.close()


def clock(host: str, port: int) -> float:
    """Seconds by which the other side's clock is ahead, give or take half of the way there and back."""
    channel = channels.connect(host, port)
    try:
        start = time.time()
        theirs = float(channel.ask(do="clock")["time"])
        return theirs - (start + time.time()) / 2
    finally:
        channel.close()


def run(host: str, port: int, plans: Sequence[Plan], tools: Sequence[str], say: Say) -> Report:
    """Everything, against the server at host:port. A backend that fails is a line of the report."""
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for plan in plans:
        say(f"{plan.backend}: {len(list(plan.cases()))} cases")
        found, error = backend(host, port, plan)
        rows += found
        if error:
            failed[plan.backend] = error
            say(f"{plan.backend}: {error}")
    links: list[raw.Raw] = []
    biggest = max((size for plan in plans for size in plan.sizes), default=0)
    efa = any("efa" in row.transport for row in rows)
    for tool in tools:
        for op in dict.fromkeys(op for plan in plans for op in plan.ops) if tool != "iperf3" else ("READ",):
            try:
                channel = channels.connect(host, port)
                try:
                    links.append(raw.measure(channel, tool, op, biggest, "efa" if efa else "tcp"))
                finally:
                    channel.close()
            except Lost as error:
                failed[f"{tool} {op}"] = str(error)
    return Report(tuple(rows), tuple(links), failed)


def backend(host: str, port: int, plan: Plan) -> tuple[list[Row], str]:
    """One backend's rows, and why it ended early, if it did."""
    with tempfile.TemporaryDirectory(prefix="kvbench-") as folder:
        log = Path(folder) / "ucx.log"
        more = {"UCX_PROTO_INFO": "y", "UCX_LOG_FILE": str(log), "NIXL_LOG_LEVEL": "INFO"}
        if plan.ucx_tls:
            more["UCX_TLS"] = plan.ucx_tls
        command = [sys.executable, "-m", "serve_app.kvbench.initiator", host, str(port)]
        try:
            done = subprocess.run(
                command, input=json.dumps(plan.as_json()).encode(), capture_output=True, timeout=BACKEND_S,
                env={**os.environ, **more}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [], f"not through after {BACKEND_S:.0f} s"
        text = done.stderr.decode(errors="replace")
        if log.exists():
            text += "\n" + log.read_text(errors="replace")
    results = [json.loads(line) for line in done.stdout.decode().splitlines() if line]
    error = next((str(result["error"]) for result in results if "error" in result), "")
    if done.returncode and not error:
        error = f"ended with {done.returncode}: {last(done.stderr)}"
    return [_row(plan, result, text) for result in results if "error" not in result], error


def _row(plan: Plan, result: dict[str, Any], log: str) -> Row:
    said = transport.said(plan.backend, log, result["op"])
    seen = transport.seen(result["moved"], result["payload"])
    return Row(
        backend=plan.backend,
        op=result["op"],
        memory=plan.memory,
        size=result["size"],
        descriptors=result["descriptors"],
        median_s=statistics.median(result["seconds"]),
        best_s=min(result["seconds"]),
        transfers=len(result["seconds"]),
        verified=bool(result["verified"]),
        transport=said,
        seen=seen,
        moved=result["moved"],
        hmem=transport.NO_HMEM not in log if plan.backend == "LIBFABRIC" else None,
        contradiction=transport.contradiction(said, seen),
    )
