"""Which paths stay out of the image."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.debian.rules import KEPT_FOLDERS, RULES, dropped, rule_for


@pytest.mark.parametrize(
    "path",
    [
        "etc/hostname",
        "etc/resolv.conf",
        "etc/passwd-",
        "etc/.pwd.lock",
        "etc/ld.so.cache",
        "etc/apt/sources.list",
        "etc/apt/sources.list.d/0000local.list",
        "etc/apt/apt.conf.d/99mmdebstrap",
        "var/cache/debconf/templates.dat-old",
        "var/lib/dpkg/status-old",
        "var/lib/dpkg/lock-frontend",
        "var/cache/apt/archives/lock",
        "var/cache/apt/pkgcache.bin",
        "var/lib/apt/lists/lock",
        "var/lib/apt/lists/partial/x",
        "var/log/btmp",
        "var/log/apt/history.log",
        "run/lock",
        "dev/null",
        "usr/share/doc/bash/README.gz",
        "usr/share/doc/bash/examples/x/y",
        "usr/share/man/man1/ls.1.gz",
        "usr/share/man/de/man1/ls.1.gz",
        "usr/share/man/de",
        "usr/share/locale/de/LC_MESSAGES/bash.mo",
        "usr/share/info/dir",
    ],
)
def test_dropped(path: str) -> None:
    assert dropped(path, False)


@pytest.mark.parametrize(
    "path",
    [
        "etc/passwd",
        "etc/hosts",
        "etc/shadow",
        "usr/bin/bash",
        "usr/lib/locale/C.utf8/LC_CTYPE",
        "usr/share/common-licenses/GPL-3",
        "usr/share/doc/bash/copyright",
        "usr/share/doc/tini/LICENSE",
        "usr/share/doc/x/y/NOTICE.txt",
        "usr/share/man/man1",
        "usr/share/zoneinfo/UTC",
        "var/lib/apt/lists/partial",
        "var/lib/dpkg/status",
        "var/lib/dpkg/info/bash.list",
        "var/cache/debconf/templates.dat",
        "usr/lib/python3.11/__pycache__/os.cpython-311.pyc",
        "dev-tools",
        "etc/hostnames",
        "usr/share/docs/x",
    ],
)
def test_kept(path: str) -> None:
    assert not dropped(path, False)


@pytest.mark.parametrize("path", sorted(KEPT_FOLDERS))
def test_folders_that_stay_are_empty_but_there(path: str) -> None:
    assert not dropped(path, True)
    assert dropped(f"{path}/leftover", False) or path in ("var/cache", "var/log")


def test_every_rule_has_a_reason_and_can_decide() -> None:
    assert all(rule.why for rule in RULES)
    for rule in RULES:
        example = rule.pattern.replace("**", "x").replace("[CS]", "C").replace("*", "x").replace("?", "1")
        assert rule_for(example) is not None, rule


@settings(deadline=None)
@given(st.text("abc/.", min_size=1, max_size=12))
def test_names_nobody_speaks_of_stay(path: str) -> None:
    assert not dropped("usr/lib/" + path, False)
