"""What a source of artifacts looks like to fetch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slipway.lock.model import Artifact
from slipway.sources.http import Http


@dataclass(frozen=True)
class Place:
    """One address at which an artifact may lie: a file of this machine (`path`) or a server's (`http`).

    sha256: what an index says of the bytes there, "" where none does
    guess:  an address that was made up (a sibling, a path without `updates/`): nobody need hear that it was in vain
    """

    address: str
    path: Path | None = None
    http: Http | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    guess: bool = False


@dataclass(frozen=True)
class Offer:
    """What a source has now instead of the locked version."""

    version: str
    address: str


class Origin(Protocol):
    """One source. Both methods may be called from several threads.

    `places` gives addresses in the order in which to try them, lazily, since finding one may take a request. It and
    `offered` may raise the errors of slipway.sources.outcome.
    """

    name: str

    def places(self, artifact: Artifact) -> Iterator[Place]: ...

    def offered(self, artifact: Artifact) -> list[Offer]: ...
