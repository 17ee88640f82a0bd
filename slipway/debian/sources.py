"""The image's own apt sources, made from the example that Debian ships in the locked `apt` package.

So the addresses are Debian's, stand nowhere in this project, and change with the package. Forms: sources.list(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slipway.debian import deb
from slipway.debian.control import field, paragraphs
from slipway.errors import BuildFailed

EXAMPLES = ("usr/share/doc/apt/examples/debian.sources", "usr/share/doc/apt/examples/sources.list")
"""Where the apt package has its example: deb822 from Debian 13 on, one line per source before."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
"""In the image by way of the package debian-archive-keyring; apt's sources are tied to it."""

COMPONENTS = "main"
"""What is enabled. contrib and non-free are a choice of whoever builds FROM the image."""


@dataclass(frozen=True)
class Origin:
    """One archive and the suites to take from it."""

    address: str
    suites: tuple[str, ...]


def from_package(apt_deb: Path, suite: str) -> str:
    """The text of /etc/apt/sources.list.d/debian.sources for `suite`, from the apt package's example."""
    for path in EXAMPLES:
        example = deb.content(apt_deb, path)
        if example is not None:
            return render(parse(example.decode("utf-8")), suite)
    raise BuildFailed(
        "the locked apt package ships no example of its sources",
        where=f"{apt_deb.name}: {' or '.join(EXAMPLES)}",
        why="the image would have no address to install packages from",
    )


def parse(example: str) -> list[Origin]:
    """Archives with their suites, in the example's order; comments and deb-src are left out."""
    found: dict[str, list[str]] = {}
    lines = [line for line in example.splitlines() if not line.lstrip().startswith("#")]
    if any(line.lower().startswith("types:") for line in lines):
        for paragraph in paragraphs("\n".join(lines)):
            if "deb" in field(paragraph, "Types").split():
                for address in field(paragraph, "URIs").split():
                    found.setdefault(address.rstrip("/"), []).extend(field(paragraph, "Suites").split())
    else:
        for line in lines:
            words = _without_options(line).split()
            if len(words) >= 3 and words[0] == "deb":
                found.setdefault(words[1].rstrip("/"), []).append(words[2])
    return [Origin(address, tuple(dict.fromkeys(suites))) for address, suites in found.items()]


def _without_options(line: str) -> str:
    """A one-line source without `[…]`."""
    before, bracket, rest = line.partition("[")
    return before + rest.partition("]")[2] if bracket else line


def render(origins: list[Origin], suite: str) -> str:
    """Those origins in deb822 form. Raises BuildFailed when `suite`, its updates or its security suite is missing."""
    named = [name for origin in origins for name in origin.suites]
    lacking = [name for name in (suite, f"{suite}-updates", f"{suite}-security") if name not in named]
    if lacking:
        raise BuildFailed(
            f"apt's example of its sources does not name {', '.join(lacking)}",
            where=", ".join(named) or "no source at all",
            why="the image would not get that suite's packages",
            remedy="see that the locked apt package belongs to the release's suite",
        )
    return "\n".join(
        f"Types: deb\nURIs: {origin.address}\nSuites: {' '.join(origin.suites)}\nComponents: {COMPONENTS}\n"
        f"Signed-By: {KEYRING}\n"
        for origin in origins
    )
