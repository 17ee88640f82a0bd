"""The container engine, which `--load` and the container tests use; building needs none."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.doctor.model import Finding, Machine
from slipway.engine import find
from slipway.engine.model import Engine
from slipway.host import apt
from slipway.load.load import takes_zstd


def check(_machine: Machine) -> Iterator[Finding]:
    found = find.probe()
    if isinstance(found, Engine):
        what = f"Docker {found.version} answers, {found.store} image store"
        if takes_zstd(found.version):
            yield Finding("engine", "ok", what)
        else:
            yield Finding("engine", "note", what, "it knows no zstd: --load sends uncompressed layers, which is slower")
        return
    error = find.no_engine(found)
    if apt.can_install():
        remedy = f"build.py test brings and starts one of its own; for --load: {error.remedy}"
        yield Finding("engine", "note", f"{error.what}; building needs none", remedy)
    else:
        yield Finding("engine", "warning", f"{error.what}; building needs none, --load and test do", error.remedy or "")
