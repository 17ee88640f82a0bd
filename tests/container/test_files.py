"""The image's files: no rights that nobody needs, no keys, nothing left over from making it."""

from __future__ import annotations

import json
import os
import re
import socket

import pytest

from slipway import pins
from slipway.cli import common
from tests.container.docker import Docker, Image

FROZEN = ("--network", "none", "--user", "0:0", "--read-only", "--entrypoint", "", "--hostname", "elsewhere")
"""As root, so that everything can be read; read only, so that what is found was in the image."""


def find(docker: Docker, *expression: str) -> list[str]:
    """Paths of the image's own file system that `find` prints."""
    done = docker.run("find", "/", "-xdev", *expression, options=FROZEN)
    engines = ("/.dockerenv", "/dev", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/proc", "/sys")
    return sorted(path for path in done.out.splitlines() if not path.startswith(engines))


def test_setuid_files_are_those_with_a_reason(docker: Docker, image: Image) -> None:
    release, variant = (image.labels.get(f"io.slipway.{name}", "") for name in ("release", "variant"))
    allowed: set[str] = set()
    if release:
        selection = pins.load(common.ROOT / "versions.toml").select(release, variant, None)
        allowed = {f"/{path}" for path in selection.setuid}
    assert set(find(docker, "-type", "f", "-perm", "/6000")) == allowed


def test_no_file_is_writable_by_everybody(docker: Docker) -> None:
    assert find(docker, "-type", "f", "-perm", "-0002") == []


def test_directories_writable_by_everybody_are_sticky_temporary_ones(docker: Docker) -> None:
    assert set(find(docker, "-type", "d", "-perm", "-0002")) <= {"/tmp", "/var/tmp"}
    assert find(docker, "-type", "d", "-perm", "-0002", "!", "-perm", "-1000") == []


def test_no_file_has_an_owner_that_the_image_does_not_know(docker: Docker) -> None:
    assert find(docker, "(", "-nouser", "-o", "-nogroup", ")") == []


def test_there_are_no_device_files(docker: Docker) -> None:
    assert find(docker, "(", "-type", "b", "-o", "-type", "c", "-o", "-type", "p", "-o", "-type", "s", ")") == []


SEARCH = r"""
import json, os, re, sys
key = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}")
marks = [mark.encode() for mark in json.loads(sys.argv[1])]
keys, marked = [], []
for folder, folders, names in os.walk("/"):
    folders[:] = [n for n in folders if os.path.join(folder, n) not in ("/proc", "/sys", "/dev", "/run/secrets")]
    for name in names:
        path = os.path.join(folder, name)
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > 4 << 20:
            continue
        with open(path, "rb") as file:
            content = file.read()
        # Crypto libraries hold keys to test themselves with; those are no secrets.
        if key.search(content) and not content.startswith(b"\x7fELF"):
            keys.append(path)
        if any(mark in content for mark in marks) and not path.startswith(("/etc/hosts", "/etc/resolv.conf")):
            marked.append(path)
print(json.dumps({"keys": keys, "marked": marked}))
"""


@pytest.mark.needs("python")
def test_it_holds_no_key_and_nothing_of_the_machine_that_made_it(docker: Docker) -> None:
    """Names that only this machine uses: its host name where that is not a word, its checkout, its user's home."""
    name = socket.gethostname()
    marks = [str(common.ROOT), *([name] if len(name) >= 8 else [])]
    marks += [home] if (home := os.path.expanduser("~")) not in ("/root", "/home/ray", "/") else []  # noqa: PTH111
    found = json.loads(docker.run("python", "-", json.dumps(marks), options=FROZEN, data=SEARCH.encode()).out)
    assert found == {"keys": [], "marked": []}


def test_no_credentials_or_settings_of_a_user_are_in_it(docker: Docker) -> None:
    names = (
        ".netrc",
        ".pypirc",
        "pip.conf",
        ".git-credentials",
        ".bash_history",
        "id_rsa",
        "id_ed25519",
        "credentials",
    )
    expression = [word for name in names for word in ("-o", "-name", name)][1:]
    found = find(docker, "-type", "f", "(", *expression, ")")
    assert [path for path in found if "site-packages" not in path] == []


def test_nothing_is_left_over_from_making_it(docker: Docker) -> None:
    """Logs, package lists, downloaded packages, caches that hold times, debconf's backups."""
    places = (
        "/var/log",
        "/var/lib/apt/lists",
        "/var/cache/apt",
        "/var/cache/ldconfig",
        "/tmp",
        "/var/tmp",
        "/root/.cache",
    )
    backups = "/var/lib/dpkg/*-old /var/cache/debconf/*-old"
    script = f"find {' '.join(places)} /home -type f 2>/dev/null; ls {backups} 2>/dev/null; true"
    found = docker.run("sh", "-c", script, options=FROZEN).out.split()
    shells = re.compile(r"/home/ray/\.(bashrc|profile|bash_logout)")
    assert [path for path in found if not shells.fullmatch(path)] == []


def test_identities_are_given_at_start_not_in_the_image(docker: Docker) -> None:
    assert docker.run("cat", "/etc/machine-id", options=FROZEN).out.strip() == ""


def test_licences_are_kept(docker: Docker) -> None:
    found = docker.run(
        "sh", "-c", "ls /usr/share/doc/*/copyright | wc -l; ls /usr/share/common-licenses | wc -l", options=FROZEN
    )
    packages, common_ones = map(int, found.out.split())
    assert packages > 50
    assert common_ones > 5
