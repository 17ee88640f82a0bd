"""Compares the reference build's tree with the assembled image's: contents, modes and links of every file.

Left aside is what an installer notes for itself, and byte-code: uv notes other things, and compiles nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipway.inspect.image import Image
from slipway.inspect.stream import LayerStream
from slipway.inspect.untar import TarReader
from slipway.wheel.scripts import launcher_target

ASIDE = re.compile(
    r".*\.pyc"
    r"|opt/venv/(\.gitignore|\.lock|CACHEDIR\.TAG|pyvenv\.cfg|bin/(activate|deactivate|pydoc)[^/]*)"
    r"|opt/venv/bin/pip3\.[0-9]+"
    r"|opt/venv/lib/python[0-9.]+/site-packages/_virtualenv\.(py|pth)"
    r"|opt/venv/lib/python[0-9.]+/site-packages/[^/]+\.dist-info/(RECORD|INSTALLER|REQUESTED|uv_[a-z]+\.json|direct_url\.json)"
    r"|etc/ld\.so\.cache|var/cache/ldconfig/.*|etc/(resolv\.conf|hosts|hostname)|(dev|proc|sys)/.*|\.dockerenv"
)
"""Byte-code; what uv writes for itself and for shells; the third name that uv and pip give pip alone (pip3.11, which
stands in no entry point); ld.so's cache, whose order of equals is ldconfig's own; what an engine puts there."""

_SCRIPTS = re.compile(r"opt/venv/bin/[^/]+")
_MAX_SCRIPT = 1 << 16


def of_image(image: Image) -> dict[str, str]:
    """Path → what lies there in the assembled image: `file MODE SHA256`, `link TARGET`, `launcher MODE MODULE:ATTR`."""
    scripts = dict(_small(image))
    found = {}
    for node in image.tree:
        member = node.member
        if ASIDE.fullmatch(node.path) or member.kind == "directory":
            continue
        if member.kind == "symlink":
            found[node.path] = f"link {member.target}"
        elif member.kind in ("file", "hardlink"):
            found[node.path] = _file(member.mode, member.sha256, scripts.get(node.path))
    return found


def of_tar(file: Path) -> dict[str, str]:
    """The same of a tar of a whole tree."""
    found: dict[str, str] = {}
    with file.open("rb") as stream:
        tar = TarReader(stream, str(file))
        for member in tar:
            if ASIDE.fullmatch(member.path) or member.kind not in ("file", "symlink", "hardlink"):
                continue
            if member.kind == "symlink":
                found[member.path] = f"link {member.target}"
            elif member.kind == "hardlink":
                found[member.path] = found.get(member.target, f"hard link {member.target}")
            else:
                digest = hashlib.sha256()
                kept = b""
                for chunk in tar.content():
                    digest.update(chunk)
                    if _SCRIPTS.fullmatch(member.path) and member.size < _MAX_SCRIPT:
                        kept += chunk
                found[member.path] = _file(member.mode, digest.hexdigest(), kept)
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Path → (ours, theirs) where they differ; "" for a path that one of them lacks."""
    paths = sorted({*ours, *theirs})
    return {p: (ours.get(p, ""), theirs.get(p, "")) for p in paths if ours.get(p) != theirs.get(p)}


def _file(mode: int, sha256: str, script: bytes | None) -> str:
    target = launcher_target(script) if script else None
    return f"launcher {mode:o} {target}" if target else f"file {mode:o} {sha256}"


def _small(image: Image) -> Iterator[tuple[str, bytes]]:
    """Contents of the image's launchers."""
    for ref, index in zip(image.layout.layers, image.indexes, strict=True):
        if not any(_SCRIPTS.fullmatch(member.path) for member in index.members):
            continue
        with ref.path.open("rb") as file:
            tar = TarReader(LayerStream(ref, file), ref.name)
            for member in tar:
                if member.kind == "file" and _SCRIPTS.fullmatch(member.path) and member.size < _MAX_SCRIPT:
                    yield member.path, b"".join(tar.content())
