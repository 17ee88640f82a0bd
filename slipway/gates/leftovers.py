"""Nothing is left of how or where the image was made: caches, logs, host names, device files, build folders.

Subject of a finding: the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image
from slipway.inspect.tree import Node

NAME = "leftovers"
PROVES = "no caches, logs, host names, package lists or build folders are left"

_FILES: tuple[tuple[str, str], ...] = (
    (r"var/lib/apt/lists/(?!lock$).+", "a package list of apt"),
    (r"var/cache/apt/.+\.bin", "a cache of apt"),
    (r"var/cache/apt/archives/(?!lock$).+", "a downloaded package"),
    (r"var/cache/(debconf|ldconfig)/.+(-old|aux-cache)", "a cache of Debian's tools"),
    (r"var/lib/dpkg/[^/]+-old", "dpkg's copy of its former state"),
    (r"var/log/.+", "a log"),
    (r"(root|home/[^/]+)/\.(cache|npm|cargo|local/share/uv)/.+", "a tool's cache"),
    (r"(root|home/[^/]+)/\.(bash|python|node_repl)_history", "a shell's history"),
    (r"(var/)?tmp/.+", "a temporary file"),
    (r"(.*/)?\.git/.+|(.*/)?(\.DS_Store|[^/]+\.(swp|rej))", "a developer's file"),
)
_ANY = re.compile("|".join(pattern for pattern, _ in _FILES))
_TOP = re.compile(r"bin|boot|dev|etc|home|lib(32|64|x32)?|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var")


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text. Empty files are no leftovers: some programs want their log to exist."""
    del settings
    for node in image.tree:
        if "/" not in node.path:
            if node.path and not _TOP.fullmatch(node.path):
                yield _finding(node.path, "a top-level folder that no system has")
        elif node.member.kind in ("device", "fifo"):
            yield Finding(
                node.path,
                f"a {node.member.kind} file",
                "engines without root can't unpack it, and containers get their own /dev",
                "leave it out of the layer",
            )
        elif node.member.kind in ("file", "hardlink") and (what := _what(image, node)):
            yield _finding(node.path, what)


def _what(image: Image, node: Node) -> str | None:
    path = node.path
    if "pyc: timestamp" in node.member.marks:
        return "byte-code that is valid by its source's mtime, which layers do not keep"
    if not node.member.size:
        return None
    if _ANY.fullmatch(path):
        return next(what for pattern, what in _FILES if re.fullmatch(pattern, path))
    if path in ("etc/hostname", "etc/machine-id", "var/lib/dbus/machine-id", "etc/resolv.conf"):
        text = (image.text(path) or b"").strip()
        return "what the build machine is called, or knows" if text not in (b"", b"uninitialized") else None
    if path.endswith(".dist-info/direct_url.json") and b'"file://' in (image.text(path) or b""):
        return "the folder that a package was installed from"
    if path.startswith("etc/apt/sources.list") and re.search(rb"trusted[=:]\s*yes", image.text(path) or b"", re.I):
        return "a package source that is trusted without a signature"
    return None


def _finding(path: str, what: str) -> Finding:
    return Finding(
        path,
        f"{what} is left in the image",
        "two builds on two machines differ by it, and it tells about the machine that built the image",
        "remove it when its layer is made",
    )
