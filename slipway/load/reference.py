"""Image names: `slipway:2.60-cpu` is short for `docker.io/library/slipway:2.60-cpu`.

Grammar: https://pkg.go.dev/github.com/distribution/reference. containerd keeps the long form, `docker` shows the short.
"""

from __future__ import annotations

import re

from slipway.errors import UsageError
from slipway.registry.reference import HOST, NAME, TAG

DEFAULT_REGISTRY = "docker.io"


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
    parts = ((HOST, registry), (NAME, repository), (TAG, tag))
    if "@" in reference or len(repository) > 255 or not all(re.fullmatch(form, part) for form, part in parts):
        raise UsageError(
            f"{reference!r} can't be an image's name", remedy="use [REGISTRY/]NAME[:TAG] with a name in lower case"
        )
    return registry, repository, tag


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
