"""A node: a place where commands run inside the image. A container here, or anything that a command prefix reaches."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway.errors import BuildFailed
from slipway.host import process
from slipway.host.process import Result

PASSED = (*process.DOCKER, "KUBECONFIG", "KUBERNETES_*", "SSH_AUTH_SOCK", "HOME")
START = 'log=$1; shift; nohup setsid "$@" >"$log" 2>&1 </dev/null & echo $!'

STOP = """
kill -TERM "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "-$1" || exit 0; sleep 1; done
kill -KILL "-$1"
"""

ADDRESS = """
import socket
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    probe.connect(("192.0.2.1", 9))
    print(probe.getsockname()[0])
except OSError:
    print(socket.gethostbyname(socket.gethostname()))
"""


@dataclass(frozen=True)
class Node:
    """prefix: words before a command (`docker exec -i NAME`); engine: variables for the prefix itself."""

    name: str
    prefix: tuple[str, ...]
    address: str
    engine: Mapping[str, str]

    def run(
        self,
        *command: str,
        env: Mapping[str, str] | None = None,
        data: bytes | None = None,
        check: bool = True,
        timeout: float = 300,
    ) -> Result:
        """Run to the end; fails the test with the end of the output when `check` is set. timeout is in seconds."""
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        words = [*self.prefix, "env", *settings, *command]
        return process.run(words, pass_names=PASSED, env=self.engine, data=data, check=check, timeout=timeout)

    def python(self, code: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> str:
        """What a Python program prints there."""
        return self.run("python", "-", *arguments, env=env, data=code.encode(), timeout=timeout).out

    @contextlib.contextmanager
    def running(self, *command: str, log: str, env: Mapping[str, str] | None = None) -> Iterator[int]:
        """A command in the background, in a session of its own, ended with all of it after the block; its process id.
        log: file on the node for its output.
        """
        pid = int(self.run("sh", "-c", START, "sh", log, *command, env=env).out.split()[-1])
        try:
            yield pid
        finally:
            self.run("sh", "-c", STOP, "sh", str(pid), check=False, timeout=120)

    def wait_for(self, text: str, log: str, timeout: float, pid: int = 0) -> None:
        """Until the text stands in a log file. Fails, showing the log's end, after `timeout` seconds, or when the
        process is gone.
        """
        end = time.monotonic() + timeout
        gone = 0  # times in a row: a loaded engine may fail to run a command once
        while True:
            said = self.run("cat", log, check=False).out
            if text in said:
                return
            gone = gone + 1 if pid and self.run("kill", "-0", str(pid), check=False).code != 0 else 0
            if gone > 2 or time.monotonic() > end:
                why = "its process is gone" if gone > 2 else f"not within {timeout:.0f} s"
                raise BuildFailed(f"{self.name} did not say {text!r}: {why}", where=log, why=said[-6000:])
            time.sleep(1)

    def received(self) -> dict[str, int]:
        """Interface or RDMA device → bytes received, as serve_app.kvbench.wire counts them."""
        code = "import json; from serve_app.kvbench import wire; print(json.dumps(dict(wire.read().received)))"
        found: dict[str, int] = json.loads(self.python(code))
        return found


def reached_by(name: str, prefix: tuple[str, ...]) -> Node:
    """A node of --nodes; it is asked for its own address."""
    unknown = Node(name, prefix, "", {})
    return Node(name, prefix, unknown.python(ADDRESS).strip(), {})
