"""The root file system that enters the image."""

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.debian.clean import SOURCES, STATUS, Settings, clean
from slipway.errors import BuildFailed
from slipway.layers.entry import Entry, file_entry
from slipway.layers.tar import MTIME

BASE = [
    file_entry("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n"),
    file_entry("etc/shadow", b"root:*:20000:0:99999:7:::\n", mode=0o640, gid=42),
    file_entry("etc/skel/.bashrc", b"# hi\n"),
    Entry("run", "directory", 0o755),
    Entry("tmp", "directory", 0o1777),
]


def cleaned(*more: Entry, setuid: dict[str, str] | None = None, files: tuple[Entry, ...] = ()) -> dict[str, Entry]:
    settings = Settings(sources="Types: deb\n", setuid=setuid, files=files)
    return {entry.path: entry for entry in clean([*BASE, *more], settings)}


def text(entry: Entry) -> str:
    assert entry.read is not None
    content = b"".join(entry.read())
    assert len(content) == entry.size
    return content.decode()


def test_what_is_added_and_edited() -> None:
    entries = cleaned()
    assert "ray:x:1000:0" in text(entries["etc/passwd"])
    assert text(entries["etc/shadow"]).startswith("root:*:18518:")
    assert (entries["etc/shadow"].mode, entries["etc/shadow"].gid) == (0o640, 42)
    assert text(entries["home/ray/.bashrc"]) == "# hi\n"
    assert text(entries[SOURCES]) == "Types: deb\n"
    assert entries["etc/machine-id"].size == 0
    assert entries["tmp"].mode == 0o1777


def test_of_the_machine_nothing_stays() -> None:
    entries = cleaned(
        file_entry("etc/hostname", b"builder"),
        file_entry("etc/resolv.conf", b"nameserver"),
        file_entry("etc/apt/sources.list", b"deb [trusted=yes] copy:/somewhere x main"),
        file_entry("etc/machine-id", b"4711"),
    )
    assert not {"etc/hostname", "etc/resolv.conf", "etc/apt/sources.list"} & set(entries)
    assert text(entries["etc/machine-id"]) == ""


def test_setuid_only_from_the_list() -> None:
    su, passwd = Entry("usr/bin/su", mode=0o4755), Entry("usr/bin/passwd", mode=0o4755)
    entries = cleaned(su, passwd, Entry("var/mail", "directory", 0o2775), setuid={"usr/bin/su": "because"})
    assert entries["usr/bin/su"].mode == 0o4755
    assert entries["usr/bin/passwd"].mode == 0o755
    assert entries["var/mail"].mode == 0o775


@pytest.mark.parametrize("path", ["usr/bin/nothing", "usr/bin/ls", "bin/su"])
def test_a_setuid_entry_that_does_nothing_is_refused(path: str) -> None:
    with pytest.raises(BuildFailed, match=f"no setuid or setgid bit to keep on {path}"):
        cleaned(Entry("usr/bin/ls", mode=0o755), Entry("usr/bin/su", mode=0o4755), setuid={path: "because"})


def test_nobody_else_may_write() -> None:
    entries = cleaned(Entry("usr/x", mode=0o666), Entry("usr/y", "directory", 0o777), Entry("bin", "symlink", 0o777))
    assert (entries["usr/x"].mode, entries["usr/y"].mode, entries["bin"].mode) == (0o664, 0o775, 0o777)


def test_dpkg_status_is_in_order() -> None:
    status = b"Package: b\nStatus: ok\n\nPackage: a\nStatus: ok\n\n"
    assert text(cleaned(file_entry(STATUS, status))[STATUS]).index("Package: a") == 0


def test_our_files_stand_in_for_a_packages() -> None:
    mine = file_entry("etc/apt/apt.conf.d/x", b"mine")
    assert text(cleaned(file_entry("etc/apt/apt.conf.d/x", b"theirs"), files=(mine,))["etc/apt/apt.conf.d/x"]) == "mine"


def test_links_to_manual_pages_go_others_stay() -> None:
    entries = cleaned(
        Entry("etc/alternatives/awk", "symlink", 0o777, target="/usr/bin/mawk"),
        Entry("etc/alternatives/awk.1.gz", "symlink", 0o777, target="/usr/share/man/man1/mawk.1.gz"),
        Entry("usr/share/doc/libgcc-s1", "symlink", 0o777, target="gcc-12-base"),
        Entry("usr/share/doc/empty", "directory", 0o755),
    )
    assert "etc/alternatives/awk" in entries
    assert "etc/alternatives/awk.1.gz" not in entries
    assert "usr/share/doc/libgcc-s1" in entries
    assert "usr/share/doc/empty" not in entries


def test_sources_without_their_keys_are_refused() -> None:
    settings = Settings(sources="Types: deb\nSigned-By: /usr/share/keyrings/x.gpg\n")
    with pytest.raises(BuildFailed, match="lacks the keys"):
        clean(BASE, settings)
    assert clean([*BASE, file_entry("usr/share/keyrings/x.gpg", b"")], settings)


@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
def test_byte_code_is_valid_beside_a_source_with_the_images_date(
    tmp_path: Path, mode: py_compile.PycInvalidationMode
) -> None:
    source = tmp_path / "mod.py"
    source.write_text("answer = 42\n")
    compiled = Path(str(py_compile.compile(str(source), invalidation_mode=mode)))
    made = cleaned(file_entry("usr/lib/x.pyc", compiled.read_bytes()))["usr/lib/x.pyc"]
    assert made.read is not None
    content = b"".join(made.read())
    assert len(content) == made.size
    compiled.write_bytes(content)
    # The layer gives the source this date; Python must take the byte-code, not the source, which says otherwise.
    source.write_text("answer = 43\n")
    os.utime(source, (MTIME, MTIME))
    said = subprocess.run(
        [sys.executable, "-B", "-c", "import mod; print(mod.answer)"], cwd=tmp_path, capture_output=True, check=True
    )
    assert said.stdout == b"42\n"


def test_byte_code_without_a_header_is_refused() -> None:
    made = cleaned(file_entry("usr/lib/x.pyc", b"short"))["usr/lib/x.pyc"]
    assert made.read is not None
    with pytest.raises(BuildFailed, match="without a header"):
        list(made.read())
