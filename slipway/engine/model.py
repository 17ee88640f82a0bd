"""An engine that answers, and how its command line is called."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.errors import BuildFailed, SlipwayError
from slipway.host import process


@dataclass(frozen=True)
class Engine:
    """A Docker engine.

    version: the server's, e.g. "28.5.2"
    store: "containerd" (images are known by their manifest's digest) or "classic" (by their configuration's)
    address: DOCKER_HOST for its command line; empty for the one that the user's settings name
    """

    version: str
    store: str
    address: str = ""

    @property
    def env(self) -> Mapping[str, str]:
        """What a subprocess that calls `docker` needs in its environment."""
        return {"DOCKER_HOST": self.address} if self.address else {}

    @property
    def names(self) -> Sequence[str]:
        """Variables of the caller that a `docker` subprocess is handed."""
        if self.address:
            return [name for name in process.DOCKER if name not in ("DOCKER_HOST", "DOCKER_CONTEXT")]
        return process.DOCKER

    def docker(
        self,
        *arguments: str | os.PathLike[str],
        data: bytes | None = None,
        check: bool = True,
        timeout: float | None = None,
        error: type[SlipwayError] = BuildFailed,
    ) -> process.Result:
        """Run `docker …`. Raises `error` when it fails and `check` is set; timeout is in seconds."""
        return process.run(
            ["docker", *arguments],
            pass_names=self.names,
            env=self.env,
            data=data,
            check=check,
            timeout=timeout,
            error=error,
        )

    def environment(self) -> dict[str, str]:
        """The whole environment of a `docker` subprocess that the caller starts itself."""
        return process.environment(self.names, self.env)

    def image(self, reference: str) -> dict[str, Any] | None:
        """`docker image inspect` of one image; None when the engine does not have it."""
        result = self.docker("image", "inspect", reference, check=False)
        if result.code != 0:
            return None
        found: list[dict[str, Any]] = json.loads(result.out)
        return found[0]


@dataclass(frozen=True)
class Unreachable:
    """Why there is no engine to use.

    installed: whether the `docker` command is there
    denied: whether an engine runs, but not for this user
    """

    installed: bool
    denied: bool
    said: str = field(default="")
