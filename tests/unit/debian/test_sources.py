"""The image's apt sources from apt's own example."""

from pathlib import Path

import pytest

from slipway.debian import sources
from slipway.errors import BuildFailed
from tests.unit.debian.debs import make_deb

ONE_LINE = """# See sources.list(5) manpage for more information
deb http://archive.example/debian bookworm main contrib non-free non-free-firmware
deb [arch=amd64 signed-by=/x] http://archive.example/debian/ bookworm-updates main contrib
deb http://archive.example/debian-security bookworm-security main

#deb-src http://archive.example/debian bookworm main
deb-src http://archive.example/debian bookworm main
"""
DEB822 = """# Modernised
Types: deb deb-src
URIs: http://archive.example/debian
Suites: trixie trixie-updates
Components: main non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp

Types: deb
URIs: http://archive.example/debian-security
Suites: trixie-security
Components: main

Types: deb-src
URIs: http://sources.example/debian
Suites: trixie
"""


def expected(suite: str) -> str:
    keyring = "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    return (
        f"Types: deb\nURIs: http://archive.example/debian\nSuites: {suite} {suite}-updates\n{keyring}\n"
        f"Types: deb\nURIs: http://archive.example/debian-security\nSuites: {suite}-security\n{keyring}"
    )


@pytest.mark.parametrize(("example", "suite"), [(ONE_LINE, "bookworm"), (DEB822, "trixie")])
def test_both_forms_give_the_same(example: str, suite: str) -> None:
    assert sources.render(sources.parse(example), suite) == expected(suite)


def test_wrong_suite() -> None:
    with pytest.raises(BuildFailed, match="does not name trixie, trixie-updates, trixie-security"):
        sources.render(sources.parse(ONE_LINE), "trixie")


def test_only_security_is_missing() -> None:
    cut = "\n".join(line for line in ONE_LINE.splitlines() if "security" not in line)
    with pytest.raises(BuildFailed, match="does not name bookworm-security"):
        sources.render(sources.parse(cut), "bookworm")


def test_from_package(tmp_path: Path) -> None:
    _, path = make_deb(tmp_path, "apt", {f"./{sources.EXAMPLES[1]}": ONE_LINE.encode()})
    assert sources.from_package(path, "bookworm") == expected("bookworm")
    _, path = make_deb(tmp_path, "apt", {"./usr/bin/apt": b""})
    with pytest.raises(BuildFailed, match="no example"):
        sources.from_package(path, "bookworm")
