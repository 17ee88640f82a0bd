"""Which Debian archives are tried, whatever the machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.errors import MissingError
from slipway.lock import archive
from slipway.lock.archive import Archives, candidates, suites
from slipway.sources.apt import Archive
from slipway.sources.mirrors import Mirrors

MAIN = Archive("http://d.example/debian", ("trixie", "trixie-updates"), ("main",))
SECURITY = Archive("http://s.example/debian-security", ("trixie-security",), ("main",))
VENDOR = Archive("https://v.example/apt", ("stable",), ("contrib",))
UBUNTU = Archive("http://u.example/ubuntu", ("noble", "noble-security"), ("main", "universe"))


def test_apts_archives_serve_whatever_suite_they_are_configured_for() -> None:
    found = candidates("bookworm", "apt", Mirrors(), [VENDOR, MAIN, SECURITY])
    assert found == (
        Archives(MAIN.root, SECURITY.root),
        Archives(MAIN.root, "http://d.example/debian-security"),
    )


def test_one_archive_may_hold_both() -> None:
    both = Archive("http://m.example/all", ("bookworm", "bookworm-security"), ("main",))
    assert candidates("bookworm", "apt", Mirrors(), [both])[0] == Archives(both.root, both.root)


def test_ubuntu_falls_back_to_python_apts_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive.host_apt, "ensure", lambda tools: None)
    template = [
        Archive("http://t.example/debian", ("bookworm",), ("main",)),
        Archive("http://ts.example", ("bookworm-security",), ("main",)),
    ]
    monkeypatch.setattr(archive.apt, "template_archives", lambda suite: template if suite == "bookworm" else [])
    assert candidates("bookworm", "apt", Mirrors(), [UBUNTU])[0] == Archives(
        "http://t.example/debian", "http://ts.example"
    )


def test_no_archive_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive.host_apt, "ensure", lambda tools: None)
    monkeypatch.setattr(archive.apt, "template_archives", lambda suite: [])
    with pytest.raises(MissingError, match="--mirror debian=URL") as caught:
        candidates("bookworm", "apt", Mirrors(), [UBUNTU, VENDOR])
    assert caught.value.exit_code == 3


def test_who_is_not_root_is_told_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive.host_apt, "is_there", lambda tool: False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingError, match="install .*python-apt-common") as caught:
        candidates("bookworm", "apt", Mirrors(), [UBUNTU])
    assert "--mirror debian=URL" in str(caught.value)


def test_a_mirror_comes_first_with_security_beside_it_or_in_it(tmp_path: Path) -> None:
    found = candidates("bookworm", "apt", Mirrors(debian=("http://m.example/debian/",)), [MAIN])
    assert found == (
        Archives("http://m.example/debian", "http://m.example/debian-security"),
        Archives("http://m.example/debian", "http://m.example/debian"),
    )
    named = Mirrors(debian=(str(tmp_path),), debian_security=("http://s.example/x/",))
    assert candidates("bookworm", "apt", named, [MAIN]) == (Archives(f"file:{tmp_path}", "http://s.example/x"),)


def test_a_pinned_archive_stands_in_where_apt_knows_none() -> None:
    pinned = "http://p.example/d"
    assert candidates("bookworm", pinned, Mirrors(), [UBUNTU]) == (Archives(pinned, pinned),)
    assert candidates("bookworm", pinned, Mirrors(), [MAIN])[0].main == MAIN.root


def test_paths_are_below_the_archive_that_holds_them() -> None:
    archives = Archives("http://d.example/debian", "http://d.example/debian-security")
    assert archives.path_of("http://d.example/debian/pool/x.deb") == "pool/x.deb"
    assert archives.path_of("http://d.example/debian-security/pool/x.deb") == "pool/x.deb"
    assert archives.path_of("http://other.example/debian/pool/x.deb") is None
    assert [archives.root_of(suite) for suite in suites("bookworm")] == [
        *("http://d.example/debian", "http://d.example/debian", "http://d.example/debian-security")
    ]
