"""Which Debian archive a lock is made from: --mirror, the pins, what apt is configured with, python-apt's template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from slipway.errors import MissingError
from slipway.host import apt as host_apt
from slipway.sources import apt
from slipway.sources.address import local_path
from slipway.sources.choose import DEBIAN_DEFAULTS
from slipway.sources.mirrors import Mirrors


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
    suite: str, pinned: str, mirrors: Mirrors, configured: Sequence[apt.Archive] | None = None
) -> tuple[Archives, ...]:
    """The archives to try, in order; the Debian keys decide whether one is what it seems to be.

    suite:      only for the template of python-apt-common
    pinned:     sources.debian of the pins: "apt", or the root of an archive for machines whose apt knows none
    mirrors:    those of the command line come before all
    configured: apt's own archives, for tests

    Raises MissingError where none is known, with the command that helps.
    """
    if mirrors.debian:
        return tuple(_named(mirrors.debian, mirrors.debian_security))
    found = tuple(_of_apt(apt.configured() if configured is None else configured))
    if not found and pinned != "apt":
        found = tuple(_named((pinned,), mirrors.debian_security))
    if not found:
        host_apt.ensure([DEBIAN_DEFAULTS])
        found = tuple(_of_apt(apt.template_archives(suite)))
    if not found:
        remedy = "name one: `python3 build.py lock --mirror debian=URL`"
        raise MissingError("neither apt nor python-apt-common knows a Debian archive here", remedy=remedy)
    return tuple(dict.fromkeys(found))


def _named(main: Sequence[str], security: Sequence[str]) -> Iterator[Archives]:
    """Roots that somebody named; security updates are looked for beside them and in them unless they are named too."""
    for root in map(_root, main):
        for other in [_root(address) for address in security] or (beside(root), root):
            yield Archives(root, other)


def _of_apt(configured: Sequence[apt.Archive]) -> Iterator[Archives]:
    debian = apt.debian_archives(configured)
    secure = [archive.root for archive in debian if any(_is_security(name) for name in archive.suites)]
    main = [archive.root for archive in debian if not all(_is_security(name) for name in archive.suites)]
    for root, security in product(main, [*secure, None]):
        yield Archives(root, security or beside(root))


def _root(address: str) -> str:
    """An address for sources.list(5): folders of this machine are named by a path on the command line."""
    path = local_path(address)
    return address.rstrip("/") if path is None else f"file:{path}"


def _is_security(suite: str) -> bool:
    return suite.endswith(("-security", "/updates"))
