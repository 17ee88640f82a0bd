"""User names and passwords of servers: ~/.netrc as pip and curl read it, apt_auth.conf(5) as apt does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit


def user_netrc() -> tuple[Path, ...]:
    """The user's own file: $NETRC, or ~/.netrc."""
    return (Path(os.environ.get("NETRC") or "~/.netrc").expanduser(),)


def netrc_login(url: str, files: Iterable[Path]) -> tuple[str, str] | None:
    """The first entry that fits an address. Files that can't be read hold none."""
    for path in files:
        try:
            entries = parse(path.read_text("utf-8", errors="replace"))
        except OSError:
            continue
        for machine, login in entries:
            if _fits(machine, url):
                return login
    return None


def parse(text: str) -> list[tuple[str, tuple[str, str]]]:
    """`machine NAME login USER password SECRET` entries; NAME is "" for `default`. Macros and comments are left out."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    words = iter(" ".join(lines).split())
    entries: list[tuple[str, dict[str, str]]] = []
    for word in words:
        if word == "default":
            entries.append(("", {}))
        elif word == "machine":
            entries.append((next(words, ""), {}))
        elif word in ("login", "password", "account") and entries:
            entries[-1][1][word] = next(words, "")
    return [(machine, (found.get("login", ""), found.get("password", ""))) for machine, found in entries]


def _fits(machine: str, url: str) -> bool:
    """A host, `host:port`, `host/path` (all below it), or one with `scheme://` in front, as apt allows."""
    parts = urlsplit(url)
    scheme, separator, rest = machine.rpartition("://")
    if not machine:
        return True
    if separator and scheme != parts.scheme:
        return False
    host, slash, path = rest.partition("/")
    if host.lower() not in (parts.hostname, f"{parts.hostname}:{parts.port}"):
        return False
    return not slash or parts.path.startswith(f"/{path}")
