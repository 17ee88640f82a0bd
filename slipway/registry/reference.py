"""References: `[http://|https://]host[:port]/path[:tag][@sha256:…]`, with the host always written out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slipway.errors import UsageError

NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
HOST = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::\d+)?"
PATTERN = re.compile(rf"(?:(https?)://)?({HOST})/({NAME})(?::({TAG}))?(?:@(sha256:[0-9a-f]{{64}}))?")
LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?")
DOCKER_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


@dataclass(frozen=True)
class Reference:
    """A repository of a registry, with a tag or digest or neither.

    host: with port, as written; scheme: https, or http for this machine's own registries and where it is written out
    """

    host: str
    name: str
    tag: str = ""
    digest: str = ""
    scheme: str = "https"

    @property
    def base(self) -> str:
        """The address below which the registry's API lies."""
        return f"{self.scheme}://{DOCKER_HUB.get(self.host, self.host)}/v2"

    @property
    def target(self) -> str:
        """What a manifest is asked for by: digest, else tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        tag, digest = (f":{self.tag}" if self.tag else ""), (f"@{self.digest}" if self.digest else "")
        return f"{self.host}/{self.name}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Raises UsageError that says what is wrong with it."""
    match = PATTERN.fullmatch(text.strip())
    host = match[2] if match else text.partition("/")[0]
    if match is None or not _is_host(host):
        raise UsageError(
            f"{text!r} is not a reference to a registry's repository{_reason(text.strip())}",
            remedy="write HOST[:PORT]/NAME[:TAG], with the host written out and the name in lower case, "
            "e.g. registry.example.com/team/slipway:2.60",
        )
    scheme = match[1] or ("http" if LOOPBACK.fullmatch(host) else "https")
    return Reference(host.lower(), match[3], match[4] or "", match[5] or "", scheme)


def _is_host(text: str) -> bool:
    """A name without a dot or port would be a folder of Docker Hub elsewhere; here the host is always written out."""
    return "." in text or ":" in text or text == "localhost"


def _reason(text: str) -> str:
    """What is wrong with it, where that can be told: `: …`, or nothing."""
    scheme, separator, rest = text.rpartition("://")
    if separator and scheme not in ("http", "https"):
        return f": it begins with {scheme}://"
    host, _, path = rest.partition("/")
    name, _, digest = path.partition("@")
    if not _is_host(host):
        return f": {host!r} is no host" if host else ""
    if not path:
        return ": no repository is named behind the host"
    if "@" in path and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return f": {digest!r} is no digest, which is sha256: and 64 hexadecimal digits in lower case"
    if name.partition(":")[0] != name.partition(":")[0].lower():
        return ": its name has capitals"
    return ""
