"""The engine for a test run: one that runs already, else one of our own, installed first where that can be done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from slipway.engine import daemon, install
from slipway.engine.find import no_engine, probe
from slipway.engine.model import Engine
from slipway.host import process


@contextlib.contextmanager
def available(data: Path) -> Iterator[Engine]:
    """An engine for as long as the context lasts. One that ran before is used, and left running.

    data: where an engine of our own keeps images meanwhile. Raises MissingError when there is none to be had.
    """
    found = probe()
    if isinstance(found, Engine):
        yield found
        return
    if os.geteuid() != 0:
        raise no_engine(found)
    if process.which("dockerd") is None or process.which("docker") is None:
        install.install()
    with daemon.own(data) as engine:
        yield engine
