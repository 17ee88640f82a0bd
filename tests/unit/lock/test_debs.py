"""A real apt on a small archive of our own, signed with a key of our own: nothing of the machine's apt may show."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slipway.errors import MissingError, UsageError, WrongArtifact
from slipway.lock import apt_state
from slipway.lock.archive import Archives
from slipway.lock.debs import resolve_debs
from slipway.lock.model import Deb
from slipway.pins.model import Libfabric, Selection, Sources

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("apt-get", "gpg", "gpgv")), reason="apt and gpg are not installed here"
)
A, B = "a" * 64, "b" * 64
FABRIC = Libfabric("2.1.0", "trixie", "libfabric_2.1.0.orig.tar.xz", A)


def selection(*image: str, build: tuple[str, ...] = ("gcc",), fabric: Libfabric = FABRIC) -> Selection:
    return Selection(
        "1.0", "cpu", "amd64", "3.11", "bookworm", "2.36", "source", (), fabric, Sources(),
        debs={"image": image, "build": build},
    )  # fmt: skip


def stanza(name: str, version: str, *, more: str = "", arch: str = "amd64") -> str:
    path = f"pool/main/{name[0]}/{name}/{name}_{version.partition(':')[2] or version}_{arch}.deb"
    digest = hashlib.sha256(path.encode()).hexdigest()
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: {arch}\nMaintainer: x <x@example.org>\n{more}"
        f"Filename: {path}\nSize: {len(path)}\nSHA256: {digest}\nDescription: x\n"
    )


BASE = [
    stanza("base-files", "12", more="Essential: yes\n"),
    stanza("apt", "2.6", more="Depends: libapt\n"),
    stanza("libapt", "2.6"),
    stanza("debian-archive-keyring", "2023", arch="all"),
    stanza("gcc", "4:12.2.0-3", more="Depends: libc-dev\n"),
    stanza("libc-dev", "2.36"),
    stanza("wget", "1.21", more="Recommends: ca-certificates\n"),
    stanza("ca-certificates", "2023", arch="all"),
]


SIGNED: dict[tuple[str, str], str] = {}
"""What was signed already, by key and text: signing is the slow part of these tests."""


@dataclass
class Archive:
    """Writes dists/ of an archive and signs them."""

    root: Path
    home: Path
    key: str = "test"
    suites: dict[str, list[str]] = field(default_factory=lambda: {"bookworm": list(BASE)})
    source_sha256: str = A
    valid_until: str = "Sat, 01 Jan 2050 00:00:00 UTC"

    def gpg(self, *words: str) -> None:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
        subprocess.run([*command, "--passphrase", "", *words], check=True, capture_output=True)

    def write(self) -> Archives:
        for suite in ("bookworm", "bookworm-updates", "bookworm-security"):
            self._suite(suite, "main/binary-amd64/Packages", "\n".join(self.suites.get(suite, [])))
        source = (
            "Package: libfabric\nBinary: libfabric1\nVersion: 2.1.0-1\nArchitecture: any\nFormat: 3.0 (quilt)\n"
            f"Directory: pool/main/libf/libfabric\nChecksums-Sha256:\n {self.source_sha256} 40 {FABRIC.file}\n"
        )
        self._suite("trixie", "main/source/Sources", source)
        return Archives(f"file:{self.root}", f"file:{self.root}")

    def _suite(self, suite: str, index: str, content: str) -> None:
        folder = self.root / "dists" / suite
        (folder / index).parent.mkdir(parents=True, exist_ok=True)
        (folder / index).write_text(content)
        digest = hashlib.sha256(content.encode()).hexdigest()
        (folder / "Release").write_text(
            f"Origin: Debian\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\n"
            f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nValid-Until: {self.valid_until}\n"
            f"SHA256:\n {digest} {len(content.encode())} {index}\n"
        )
        (folder / "InRelease").unlink(missing_ok=True)
        if self.key:
            text = (folder / "Release").read_text()
            signed = SIGNED.get((self.key, text))
            if signed is None:
                to = str(folder / "InRelease")
                self.gpg("--local-user", self.key, "--clearsign", "--output", to, str(folder / "Release"))
                signed = SIGNED[self.key, text] = (folder / "InRelease").read_text()
            (folder / "InRelease").write_text(signed)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("gpg")
    folder.chmod(0o700)
    archive = Archive(folder, folder)
    for name in ("test", "stranger"):
        archive.gpg("--quick-generate-key", name, "ed25519", "sign", "never")
    archive.gpg("--output", str(folder / "keyring.gpg"), "--export", "test")
    yield folder
    subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "all"], check=False, capture_output=True)


@pytest.fixture
def archive(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setattr(apt_state, "KEYRING", home / "keyring.gpg")
    monkeypatch.setattr(apt_state, "carried", lambda: [])
    return Archive(tmp_path / "archive", home)


def names(debs: tuple[Deb, ...]) -> list[str]:
    return [deb.name for deb in debs]


def test_the_closure_is_exact_and_without_recommends(archive: Archive) -> None:
    found = resolve_debs(selection("wget"), [archive.write()])
    assert {deb.name: deb.sets for deb in found.debs} == {
        "apt": ("build", "image"), "base-files": ("build", "image"), "debian-archive-keyring": ("build", "image"),
        "gcc": ("build",), "libapt": ("build", "image"), "libc-dev": ("build",), "wget": ("image",),
    }  # fmt: skip
    gcc = next(deb for deb in found.debs if deb.name == "gcc")
    assert (gcc.version, gcc.file, gcc.path) == (
        "4:12.2.0-3", "gcc_12.2.0-3_amd64.deb", "pool/main/g/gcc/gcc_12.2.0-3_amd64.deb",
    )  # fmt: skip
    assert (gcc.suite, gcc.component, gcc.arch, gcc.size) == ("bookworm", "main", "amd64", len(gcc.path))
    assert gcc.sha256 == hashlib.sha256(gcc.path.encode()).hexdigest()
    assert next(deb.arch for deb in found.debs if deb.name == "debian-archive-keyring") == "all"
    (source,) = found.sources
    assert (source.path, source.size, source.suite) == (f"pool/main/libf/libfabric/{FABRIC.file}", 40, "trixie")


def test_corrections_come_from_updates_and_security(archive: Archive) -> None:
    archive.suites["bookworm-security"] = [stanza("wget", "1.21+deb12u1")]
    archive.suites["bookworm-updates"] = [stanza("libapt", "2.7")]
    found = {deb.name: (deb.version, deb.suite) for deb in resolve_debs(selection("wget"), [archive.write()]).debs}
    assert found["wget"] == ("1.21+deb12u1", "bookworm-security")
    assert found["libapt"] == ("2.7", "bookworm-updates")


def test_locked_versions_stay_while_the_archive_has_them(archive: Archive) -> None:
    old = resolve_debs(selection("wget"), [archive.write()])
    archive.suites["bookworm-security"] = [stanza("wget", "1.21+deb12u1")]
    kept = resolve_debs(selection("wget"), [archive.write()], old.debs, old.sources)
    assert kept == old
    archive.suites["bookworm"] = [text for text in BASE if "Package: wget" not in text]
    moved = resolve_debs(selection("wget"), [archive.write()], old.debs, old.sources)
    assert [deb.version for deb in moved.debs if deb.name == "wget"] == ["1.21+deb12u1"]


def test_locked_versions_that_no_longer_fit_are_let_go(archive: Archive) -> None:
    archive.suites["bookworm"] += [stanza("a", "1"), stanza("b", "1")]
    old = resolve_debs(selection("a", "b"), [archive.write()])
    archive.suites["bookworm"] = [
        *BASE,
        stanza("a", "2", more="Depends: b (= 2)\n"),
        stanza("b", "1"),
        stanza("b", "2"),
    ]
    found = {deb.name: deb.version for deb in resolve_debs(selection("a", "b"), [archive.write()], old.debs).debs}
    assert (found["a"], found["b"]) == ("2", "2")


def test_a_known_source_is_taken_over_without_asking(archive: Archive) -> None:
    old = resolve_debs(selection("wget"), [archive.write()])
    archive.source_sha256 = B
    assert resolve_debs(selection("wget"), [archive.write()], old.debs, old.sources).sources == old.sources


def test_a_package_that_is_not_there_is_exit_2(archive: Archive) -> None:
    with pytest.raises(UsageError, match="wgett") as caught:
        resolve_debs(selection("wgett"), [archive.write()])
    assert caught.value.exit_code == 2


def test_another_tarball_under_the_same_name_is_exit_4_with_both_hashes(archive: Archive) -> None:
    archive.source_sha256 = B
    with pytest.raises(WrongArtifact) as caught:
        resolve_debs(selection("wget"), [archive.write()])
    assert A in str(caught.value) and B in str(caught.value)


def test_a_tarball_that_is_gone_names_what_is_offered(archive: Archive) -> None:
    with pytest.raises(WrongArtifact, match="offers libfabric 2.1.0-1"):
        resolve_debs(selection(fabric=Libfabric("2.0", "trixie", "libfabric_2.0.orig.tar.xz", A)), [archive.write()])


@pytest.mark.parametrize("key", ["", "stranger"])
def test_an_archive_that_debian_did_not_sign_is_no_archive(archive: Archive, key: str) -> None:
    archive.key = key
    with pytest.raises(MissingError, match="no Debian archive gives a signed index") as caught:
        resolve_debs(selection("wget"), [archive.write()])
    assert caught.value.exit_code == 3


def test_an_index_that_was_changed_after_signing_is_refused(archive: Archive) -> None:
    archives = archive.write()
    index = archive.root / "dists/bookworm/main/binary-amd64/Packages"
    index.write_text(index.read_text().replace("Size: ", "Size: 1"))
    with pytest.raises(MissingError):
        resolve_debs(selection("wget"), [archives])


def test_an_index_that_is_too_old_is_refused(archive: Archive) -> None:
    archive.valid_until = "Sat, 01 Jan 2022 01:00:00 UTC"
    with pytest.raises(MissingError, match="expired"):
        resolve_debs(selection("wget"), [archive.write()])


def test_the_next_archive_is_tried(archive: Archive, tmp_path: Path) -> None:
    nothing = Archives(f"file:{tmp_path}/nothing", f"file:{tmp_path}/nothing")
    assert "wget" in names(resolve_debs(selection("wget"), [nothing, archive.write()]).debs)


def test_the_machines_own_apt_does_not_show(archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A configuration that would break everything, as APT_CONFIG: checks off, recommends on, another architecture."""
    hostile = tmp_path / "hostile.conf"
    hostile.write_text('APT::Install-Recommends "true";\nAPT::Architecture "arm64";\nDir::State::lists "/nowhere";\n')
    monkeypatch.setenv("APT_CONFIG", str(hostile))
    assert "ca-certificates" not in names(resolve_debs(selection("wget"), [archive.write()]).debs)


def test_missing_keys_say_which_package_brings_them(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt_state, "KEYRING", Path("/nowhere/keyring.gpg"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingError, match="apt-get install .*debian-archive-keyring"):
        resolve_debs(selection("wget"), [archive.write()])
