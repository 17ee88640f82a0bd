"""Containers for tests: run to the end, or kept running for a while; none outlives its test run."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from slipway.cli.test import LABEL, RUN
from slipway.engine.model import Engine
from slipway.host.process import Result

READ_ONLY = ("--read-only", "--tmpfs", "/tmp:exec")
"""A read-only root with a writable /tmp, as `readOnlyRootFilesystem` with an emptyDir on /tmp gives it in Kubernetes.
Docker's own --tmpfs forbids to execute what lies in it unless told otherwise; an emptyDir does not."""

ARBITRARY = ("--user", "12345:0")
"""A user that the image does not know, in group 0: how OpenShift runs containers."""

OFFLINE = ("--network", "none")

_NUMBERS = itertools.count(1)
"""Of containers: a test run may have several Dockers."""


@dataclass(frozen=True)
class Image:
    """The image under test, as the engine describes it."""

    reference: str
    document: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        config: Mapping[str, Any] = self.document["Config"]
        return config

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.get("Labels") or {}

    @property
    def env(self) -> Mapping[str, str]:
        return dict(entry.split("=", 1) for entry in self.config.get("Env") or ())


@dataclass(frozen=True)
class Container:
    """One that was started and is not removed yet."""

    engine: Engine
    name: str

    def exec(self, *command: str, options: Sequence[str] = (), check: bool = True, timeout: float = 120) -> Result:
        return self.engine.docker("exec", *options, self.name, *command, check=check, timeout=timeout)

    def state(self) -> Mapping[str, Any]:
        """Docker's `State` object: Running, ExitCode, OOMKilled, …"""
        state: Mapping[str, Any] = json.loads(self.engine.docker("inspect", "-f", "{{json .State}}", self.name).out)
        return state

    def logs(self, lines: int = 200) -> str:
        result = self.engine.docker("logs", "--tail", str(lines), self.name, check=False)
        return result.out + result.err

    def url(self, port: int) -> str:
        """Where a published port answers on this machine."""
        published = self.engine.docker("port", self.name, f"{port}/tcp").out.split()[0]
        return f"http://{published.replace('0.0.0.0', '127.0.0.1')}"

    def wait_for_log(self, pattern: str, timeout: float) -> None:
        """Until a log line matches. Fails when the container ends before, or after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self.logs(10_000), re.MULTILINE):
            assert self.state()["Running"], f"{self.name} ended before it said {pattern!r}:\n{self.logs()}"
            assert time.monotonic() < deadline, f"{self.name} did not say {pattern!r} in {timeout} s:\n{self.logs()}"
            time.sleep(0.5)

    def signal_and_wait(self, name: str, timeout: float) -> tuple[int, float]:
        """Send a signal; gives the exit code and the seconds it took. Fails when it runs on for `timeout` seconds."""
        started = time.monotonic()
        self.engine.docker("kill", "--signal", name, self.name)
        while self.state()["Running"]:
            assert time.monotonic() - started < timeout, f"{self.name} runs on after {name}:\n{self.logs()}"
            time.sleep(0.2)
        return int(self.state()["ExitCode"]), time.monotonic() - started


class Docker:
    """Runs containers of one image."""

    def __init__(self, engine: Engine, image: Image) -> None:
        self.engine = engine
        self.image = image
        self._run_id = os.environ.get(RUN) or uuid.uuid4().hex[:12]

    def run(
        self,
        *command: str,
        options: Sequence[str] = OFFLINE,
        image: str = "",
        check: bool = True,
        timeout: float = 300,
        data: bytes | None = None,
    ) -> Result:
        """`docker run --rm`; the result's output is the container's. It is removed, too, when it takes too long."""
        stdin = () if data is None else ("-i",)
        name = self._name()
        words = ["run", "--rm", "--name", name, *self._marks(), *stdin, *options]
        try:
            return self.engine.docker(
                *words, image or self.image.reference, *command, check=check, timeout=timeout, data=data
            )
        except BaseException:
            self.engine.docker("rm", "-f", "-v", name, check=False)
            raise

    def python(self, code: str, options: Sequence[str] = OFFLINE, timeout: float = 300) -> str:
        """What a Python program prints in a container."""
        return self.run("python", "-", options=options, data=code.encode(), timeout=timeout).out

    @contextlib.contextmanager
    def started(self, *command: str, options: Sequence[str] = OFFLINE) -> Iterator[Container]:
        """A container in the background, removed at the end."""
        name = self._name()
        try:
            self.engine.docker("run", "-d", "--name", name, *self._marks(), *options, self.image.reference, *command)
            yield Container(self.engine, name)
        finally:
            self.engine.docker("rm", "-f", "-v", name, check=False)

    def _name(self) -> str:
        return f"slipway-test-{self._run_id}-{next(_NUMBERS)}"

    def _marks(self) -> tuple[str, str]:
        return ("--label", f"{LABEL}={self._run_id}")

    @cached_property
    def has_buildkit(self) -> bool:
        return self.engine.docker("buildx", "version", check=False).code == 0
