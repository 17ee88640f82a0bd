"""The same link without NIXL: libfabric's own fi_rma_bw, and iperf3 where both sides have it.

fi_rma_bw moves bytes both ways at once and says the rate of one way; `-W 1` keeps one transfer under way, as kvbench
does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from serve_app.kvbench.channel import Channel, Lost

TOOLS = ("fi_rma_bw", "iperf3")
SECONDS = 120
PROVIDERS = ("efa", "tcp")


@dataclass(frozen=True)
class Raw:
    """Bytes a second of a tool, for a size (0: a stream) and an operation."""

    tool: str
    op: str
    size: int
    rate: float
    command: str


def command(tool: str, message: dict[str, Any], host: str, server: bool) -> list[str]:
    """The tool's command line on one side. host: the server's address, on both sides."""
    if tool == "iperf3":
        return ["iperf3", "-s", "-1"] if server else ["iperf3", "-c", host, "-J", "-t", "3", "-l", "1M", "-R"]
    provider = message["provider"] if message["provider"] in PROVIDERS else "tcp"
    op = "read" if message["op"] == "READ" else "write"
    words = ["fi_rma_bw", "-p", provider, "-o", op, "-S", str(int(message["size"])), "-I", str(int(message["count"]))]
    return [*words, "-W", "1", *(["-s", host] if server else [host])]


def serve(channel: Channel, message: dict[str, Any]) -> None:
    """The server's side of one measurement."""
    tool = str(message.get("backend"))
    if tool not in TOOLS or shutil.which(tool) is None:
        channel.send(error=f"there is no {tool}")
        return
    host = channel.local_host()
    with subprocess.Popen(
        command(tool, message, host, server=True), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        channel.send(ready=True, host=host)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def measure(channel: Channel, tool: str, op: str, size: int, provider: str = "tcp") -> Raw:
    """The client's side. Raises Lost, saying why there is no figure."""
    if shutil.which(tool) is None:
        raise Lost(f"there is no {tool} here")
    count = max(5, min(2000, (256 << 20) // size))
    message = {"op": op, "size": size, "count": count, "provider": provider}
    host = str(channel.ask(do="raw", backend=tool, **message)["host"])
    words = command(tool, message, host, server=False)
    for _ in range(20):  # until the server listens
        try:
            done = subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise Lost(f"{tool} took more than {SECONDS} s") from error
        if done.returncode == 0:
            rate = parse(tool, done.stdout.decode(errors="replace"))
            if rate:
                return Raw(tool, op, 0 if tool == "iperf3" else size, rate, " ".join(words))
            raise Lost(f"{tool} printed no rate")
        if b"refused" not in (done.stderr + done.stdout).lower():
            break
    raise Lost(f"{tool} failed: {(done.stderr + done.stdout).decode(errors='replace').strip()[-300:]}")


def parse(tool: str, text: str) -> float:
    """Bytes a second; 0 when the output has none. fi_rma_bw's MB are millions of bytes."""
    if tool == "iperf3":
        try:
            return float(json.loads(text)["end"]["sum_received"]["bits_per_second"]) / 8
        except (ValueError, KeyError, TypeError):
            return 0.0
    for line in reversed(text.splitlines()):
        fields = line.split()
        if len(fields) >= 5 and fields[3].endswith("s"):
            try:
                return float(fields[4]) * 1e6
            except ValueError:
                continue
    return 0.0
