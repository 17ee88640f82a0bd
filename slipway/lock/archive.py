"""Which Debian archive a lock is made from: --mirror, the pins, what apt is configured with, python-apt's template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from slipway.errors import MissingError
from slipway.sources import apt


@dataclass(frozen=True)
class Archives:
    """The roots of Debian's main archive and of its security archive, without a slash at the end."""

    main: str
    security: str

    def root_of(self, suite: str) -> str:
        """The archive that holds a suite: security suites lie in one of their own."""
        return self.security if suite.endswith(("-security", "/updates")) else self.main

    def path_of(self, url: str) -> str | None:
        """The path below its archive's root that an address means, None for one of another archive."""
        for root in sorted((self.main, self.security), key=len, reverse=True):
            if url.startswith(root + "/"):
                return url[len(root) + 1 :]
        return None


def suites(suite: str) -> tuple[str, str, str]:
    """A release's suite and the two that bring its corrections."""
    return suite, f"{suite}-updates", f"{suite}-security"


def beside(main: str) -> str:
    """Where a mirror has security updates by convention: …/debian-security beside …/debian, else in the same place."""
    return f"{main}-security" if main.endswith("/debian") else main


def candidates(
    suite: str, pinned: str, mirrors: Mapping[str, str], configured: Sequence[apt.Archive] | None = None
) -> tuple[Archives, ...]:
    """The archives to try, in order; the Debian keys decide whether one is what it seems to be.

    suite:      only for the template of python-apt-common
    pinned:     sources.debian of the pins: "apt", or an archive's root
    mirrors:    source kind ("debian", "debian-security") → root, from the command line
    configured: apt's own archives, for tests

    Raises MissingError where none is known.
    """
    given = mirrors.get("debian") or ("" if pinned == "apt" else pinned)
    if given:
        main = given.rstrip("/")
        return (Archives(main, (mirrors.get("debian-security") or beside(main)).rstrip("/")),)
    found = tuple(dict.fromkeys(_of_apt(suite, apt.configured() if configured is None else configured)))
    if not found:
        raise MissingError(
            "apt knows no Debian archive on this machine",
            remedy="name one: `python3 build.py lock --mirror debian=URL` "
            "(python-apt-common brings Debian's default: `apt-get install python-apt-common`)",
        )
    return found


def _of_apt(suite: str, configured: Sequence[apt.Archive]) -> Iterator[Archives]:
    debian = apt.debian_archives(configured) or apt.template_archives(suite)
    secure = [archive.root for archive in debian if any(_is_security(name) for name in archive.suites)]
    main = [archive.root for archive in debian if not all(_is_security(name) for name in archive.suites)]
    for root, security in product(main, [*secure, None]):
        yield Archives(root, security or beside(root))


def _is_security(suite: str) -> bool:
    return suite.endswith(("-security", "/updates"))
