from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slipway.sources import apt
from slipway.sources.apt import Archive, debian_archives, parse_config, parse_deb822, parse_list, stanzas

WORD = st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True)
ROOT = st.builds("http://{}/{}".format, WORD, WORD)
ARCHIVE = st.builds(
    Archive, ROOT, st.lists(WORD, min_size=1, max_size=3).map(tuple), st.lists(WORD, min_size=1, max_size=3).map(tuple)
)

DEB822 = """\
# A comment
Types: deb
URIs: http://a.example.com/debian/
# another, in the middle of a stanza
Suites: bookworm bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 Suites: nonsense
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://off.example.com/debian
Suites: bookworm
Components: main

Types: deb deb-src
URIs: http://b.example.com/debian-security
  http://c.example.com/debian-security
Suites: bookworm-security
Components: main contrib
"""


def test_deb822() -> None:
    assert list(parse_deb822(DEB822)) == [
        Archive("http://a.example.com/debian", ("bookworm", "bookworm-updates"), ("main",)),
        Archive("http://b.example.com/debian-security", ("bookworm-security",), ("main", "contrib")),
        Archive("http://c.example.com/debian-security", ("bookworm-security",), ("main", "contrib")),
    ]


def test_one_line_style() -> None:
    text = """
# deb http://off.example.com/debian bookworm main
deb http://a.example.com/debian/ bookworm main contrib # why
deb [ arch=amd64 signed-by=/usr/share/k.gpg ] http://b.example.com/debian bookworm main
deb-src http://c.example.com/debian bookworm main
deb http://flat.example.com/repo ./
rubbish
"""
    assert list(parse_list(text)) == [
        Archive("http://a.example.com/debian", ("bookworm",), ("main", "contrib")),
        Archive("http://b.example.com/debian", ("bookworm",), ("main",)),
        Archive("http://c.example.com/debian", ("bookworm",), ("main",)),
        Archive("http://flat.example.com/repo", ("./",), ()),
    ]


@given(st.lists(ARCHIVE, max_size=4), st.booleans())
def test_deb822_gives_back_what_was_written(archives: list[Archive], folded: bool) -> None:
    between = "\n " if folded else " "
    text = "\n\n".join(
        f"Types: deb\nURIs: {a.root}\nSuites: {between.join(a.suites)}\nComponents: {between.join(a.components)}"
        for a in archives
    )
    assert list(parse_deb822(text)) == archives


@given(st.lists(ARCHIVE, max_size=4), st.sampled_from(["", "[arch=amd64] ", "[ a=b c=d ] "]))
def test_one_line_style_gives_back_what_was_written(archives: list[Archive], options: str) -> None:
    text = "\n".join(f"deb {options}{a.root} {a.suites[0]} {' '.join(a.components)}" for a in archives)
    assert list(parse_list(text)) == [Archive(a.root, a.suites[:1], a.components) for a in archives]


@given(st.text())
def test_anything_is_read_without_an_error(text: str) -> None:
    list(parse_list(text))
    list(parse_deb822(text))
    list(stanzas(text))
    parse_config(text)


def test_only_debians_own_archives_are_asked() -> None:
    archives = [
        Archive("http://a.example.com/ubuntu", ("noble",), ("main",)),
        Archive("http://vendor.example.com/debian", ("bookworm",), ("stable",)),
        Archive("http://node.example.com", ("nodistro",), ("main",)),
        Archive("http://a.example.com/debian", ("bookworm",), ("main",)),
        Archive("http://a.example.com/debian", ("bookworm-updates", "bookworm"), ("main", "contrib")),
        Archive("http://a.example.com/debian-security", ("stable-security",), ("main",)),
    ]
    assert debian_archives(archives) == [
        Archive("http://a.example.com/debian", ("bookworm", "bookworm-updates"), ("main", "contrib")),
        Archive("http://a.example.com/debian-security", ("stable-security",), ("main",)),
    ]


def test_all_files_of_etc_apt_are_read_and_mirror_lists_followed(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    mirrors = tmp_path / "mirrors.list"
    mirrors.write_text("# best first\nhttp://one.example.com/debian/\tpriority:1\nhttp://two.example.com/debian\n")
    (tmp_path / "sources.list").write_text("deb http://zero.example.com/debian bookworm main\n")
    (parts / "b.sources").write_text(f"Types: deb\nURIs: mirror+file:{mirrors}\nSuites: bookworm\nComponents: main\n")
    (parts / "a.list").write_text("deb cdrom:[Debian]/ bookworm main\ndeb copy:/srv/debian bookworm main\n")
    (parts / "off.list.disabled").write_text("deb http://off.example.com/debian bookworm main\n")
    assert [archive.root for archive in apt.configured(tmp_path)] == [
        "http://zero.example.com/debian",
        "file:/srv/debian",
        "http://one.example.com/debian",
        "http://two.example.com/debian",
    ]


def test_a_machine_without_apt(tmp_path: Path) -> None:
    assert apt.configured(tmp_path / "none") == []
    assert apt.template_archives("bookworm", tmp_path) == []


def test_debians_defaults_from_the_template(tmp_path: Path) -> None:
    (tmp_path / "Debian.info").write_text(
        """
_ChangelogURI: x

Suite: bookworm
RepositoryType: deb
BaseURI: https://deb.example.com/debian/

Suite: {series}
BaseURI: https://deb.example.com/debian/

Suite: {series}-security
BaseURI: https://security.example.com/
ParentSuite: {series}
"""
    )
    assert apt.template_archives("bookworm", tmp_path) == [
        Archive("https://deb.example.com/debian", ("bookworm",), ("main",)),
        Archive("https://security.example.com", ("bookworm-security",), ("main",)),
    ]


def test_how_apt_reaches_servers() -> None:
    found = parse_config(
        'Acquire::http::Proxy "http://cache:3142";\nAcquire::http::Proxy::near.example.com "DIRECT";\n'
        'Acquire::https::CaInfo "/etc/ca.pem";\nAcquire::https::Proxy "";\nAcquire::http::Timeout "5";\n'
    )
    assert found.proxies == {"http": "http://cache:3142", "https": "http://cache:3142"}
    assert found.host_proxies == {"near.example.com": ""}
    assert found.ca_files == (Path("/etc/ca.pem"),)
