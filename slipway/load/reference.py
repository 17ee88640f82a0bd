"""Image names: `slipway:2.60-cpu` is short for `docker.io/library/slipway:2.60-cpu`.

Grammar: https://pkg.go.dev/github.com/distribution/reference. containerd keeps the long form, `docker` shows the short.
"""

from __future__ import annotations

import re

from slipway.errors import UsageError

DEFAULT_REGISTRY = "docker.io"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?)+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?")


def split(reference: str) -> tuple[str, str, str]:
    """(registry, repository, tag), with the defaults filled in. Raises UsageError when it is no image name."""
    rest, _, tag = reference.partition("@")[0].rpartition(":")
    if not rest or "/" in tag:
        rest, tag = reference.partition("@")[0], "latest"
    first, slash, path = rest.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, repository = first, path
    else:
        registry, repository = DEFAULT_REGISTRY, rest if slash else f"library/{rest}"
    parts = repository.split("/")
    if "@" in reference or not _TAG.fullmatch(tag) or not _HOST.fullmatch(registry) or len(repository) > 255:
        raise _wrong(reference)
    if not all(_PART.fullmatch(part) for part in parts):
        raise _wrong(reference)
    return registry, repository, tag


def _wrong(reference: str) -> UsageError:
    return UsageError(
        f"{reference!r} can't be an image's name", remedy="use [REGISTRY/]NAME[:TAG] with a name in lower case"
    )


def qualified(reference: str) -> str:
    """The long form, with registry and tag."""
    registry, repository, tag = split(reference)
    return f"{registry}/{repository}:{tag}"


def familiar(reference: str) -> str:
    """The short form that `docker` shows, always with a tag."""
    registry, repository, tag = split(reference)
    if registry != DEFAULT_REGISTRY:
        return f"{registry}/{repository}:{tag}"
    return f"{repository.removeprefix('library/')}:{tag}"
