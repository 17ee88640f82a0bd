"""Debian's indices, in small."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.lock.deb_index import packages, paragraph, source_file, source_version

PACKAGES = b"""\
Package: bash
Version: 5.2-2+b13
Architecture: amd64
Description: shell
 Filename: not/this.deb
 .
Filename: pool/main/b/bash/bash_5.2-2+b13_amd64.deb
Size: 30
SHA256: aaaa

Package: wget
Version: 1.21
Filename: pool/main/w/wget/wget_1.21_amd64.deb
Size: 31

Package: last
Filename: pool/main/l/last_1_all.deb
"""
HASH = "0123456789abcdef" * 4
SOURCES = f"""\
Package: other
Version: 1
Directory: pool/main/o/other
Checksums-Sha256:
 {"f" * 64} 10 other_1.tar.xz

Package: libfabric
Binary: libfabric1
Version: 2.1.0-1
Directory: pool/main/libf/libfabric
Files:
 0123456789abcdef0123456789abcdef 3167432 libfabric_2.1.0.orig.tar.xz
Checksums-Sha256:
 {"e" * 64} 99 libfabric_2.1.0-1.dsc
 {HASH} 3167432 libfabric_2.1.0.orig.tar.xz
Homepage: https://ofiwg.github.io/libfabric/

""".encode()


def test_only_what_is_wanted_is_parsed() -> None:
    wanted = {"pool/main/b/bash/bash_5.2-2+b13_amd64.deb": 1, "pool/main/l/last_1_all.deb": 1, "not/this.deb": 1}
    found = dict(packages(PACKAGES, wanted))
    assert sorted(found) == ["pool/main/b/bash/bash_5.2-2+b13_amd64.deb", "pool/main/l/last_1_all.deb"]
    bash = found["pool/main/b/bash/bash_5.2-2+b13_amd64.deb"]
    assert (bash["package"], bash["version"], bash["size"], bash["sha256"]) == ("bash", "5.2-2+b13", "30", "aaaa")
    assert found["pool/main/l/last_1_all.deb"]["package"] == "last"


def test_a_source_file_is_found_by_name() -> None:
    found = source_file(SOURCES, "libfabric_2.1.0.orig.tar.xz")
    assert found is not None
    assert (found.path, found.size) == ("pool/main/libf/libfabric/libfabric_2.1.0.orig.tar.xz", 3167432)
    assert (found.sha256, found.package, found.version) == (HASH, "libfabric", "2.1.0-1")
    assert source_file(SOURCES, "libfabric_2.1.0xorig.tar.xz") is None
    assert source_version(SOURCES, "libfabric") == "2.1.0-1"
    assert source_version(SOURCES, "fabric") is None


fields = st.dictionaries(
    st.from_regex(r"[A-Z][a-z]{1,6}", fullmatch=True).filter(lambda name: name != "Filename"),
    st.from_regex(r"[a-z0-9.]{1,6}(\n [a-z.]{1,5}){0,2}", fullmatch=True),
    max_size=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(fields, min_size=1, max_size=5), st.data())
def test_each_paragraph_comes_back_whole(paragraphs: list[dict[str, str]], data: st.DataObject) -> None:
    text = "\n".join(
        "".join(f"{name}: {value}\n" for name, value in {**fields, "Filename": f"pool/{number}.deb"}.items())
        for number, fields in enumerate(paragraphs)
    )
    number = data.draw(st.integers(0, len(paragraphs) - 1))
    ((path, found),) = packages(text.encode(), {f"pool/{number}.deb": 1})
    expected = {name.lower(): value.replace("\n ", "\n") for name, value in paragraphs[number].items()}
    assert (path, found) == (f"pool/{number}.deb", {**expected, "filename": path})


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_survived(raw: bytes) -> None:
    assert isinstance(paragraph(raw), dict)
    list(packages(raw, {}))
    source_file(raw, "x")
