"""What a lock's files say before anything is made: made ELF files in made wheels, .debs and source tarballs."""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import image_builder as make
import pytest

from slipway import pins
from slipway.ahead import abi, contents
from slipway.errors import InvalidInput, WrongArtifact
from slipway.lock import matrix
from slipway.lock.model import Artifact, Deb, EfaInstaller, Lock, Source, Wheel
from slipway.pins.model import Installer, Requirement
from slipway.progress import Progress
from slipway.store import Store
from tests.unit.debian.debs import make_deb
from tests.unit.fabric.standin import WHY, package, tarball
from tests.unit.wheel.maker import make_wheel

ROOT = Path(__file__).parents[3]
CUDA = replace(pins.load(ROOT / "versions.toml").select("2.60", "cuda", "amd64"), gates={}, fabric="source")
CUDA = replace(CUDA, wheels=(Requirement("nixl-cu13", "1.5.1", line=77), Requirement("oldkernels", "1.0", line=78)))
CPU = replace(CUDA, variant="cpu")
PLUGIN = "nixl_cu13/libplugin_LIBFABRIC.so"
LIBRARIES = "./lib/x86_64-linux-gnu"


@dataclass
class World:
    """A lock, with its files in a store."""

    folder: Path
    wheels: list[Wheel] = field(default_factory=list)
    debs: list[Deb] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    installers: list[EfaInstaller] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    @property
    def lock(self) -> Lock:
        parts = tuple(map(tuple, (self.wheels, self.debs, self.sources, self.installers)))
        return Lock("2.60", "cuda", "amd64", "sha256:0", *parts)

    def wheel(self, name: str, version: str, files: Mapping[str, bytes], *, stored: bool = True) -> None:
        wheel, path = make_wheel(self.folder, name=name, version=version, files=files)
        self.wheels.append(wheel)
        if stored:
            self.store.add_file(path)

    def deb(self, name: str, files: Mapping[str, bytes]) -> None:
        deb, path = make_deb(self.folder, name, files)
        self.debs.append(deb)
        self.store.add_file(path)

    def source(self, *versions: str, texts: Mapping[str, str] | None = None, stored: bool = True) -> None:
        script = "".join(f"{version} {{\n\tglobal:\n\t\tfi_x;\n}} OTHER;\n\n" for version in versions)
        makefile = "if X\nsrc_libfabric_la_LDFLAGS += -version-info 28:0:27\nendif\n"
        content = source_tarball(texts or {"libfabric.map.in": script, "Makefile.am": makefile})
        sha256 = hashlib.sha256(content).hexdigest()
        self.sources = [Source("libfabric", "2.1.0", "libfabric.tar.xz", len(content), sha256, path="x")]
        if stored:
            self.store.add_bytes(content)

    def look(self, selection: pins.Selection = CUDA) -> abi.Foreseen:
        return abi.foresee(selection, self.lock, self.store, self.folder / "cache", 1, Progress())


def source_tarball(texts: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in {"prov/psm3/Makefile.am": "-version-info 25:0:24", **texts}.items():
            info = tarfile.TarInfo(f"libfabric-2.1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return lzma.compress(out.getvalue())


def nixl(*versions: str) -> bytes:
    return make.elf(
        needed=["libfabric.so.1", "libcuda.so.1", "libc.so.6"],
        needs={"libfabric.so.1": versions, "libc.so.6": ["GLIBC_2.36"]},
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.deb(
        "libc6",
        {
            f"{LIBRARIES}/libc.so.6": make.elf(soname="libc.so.6", defines=["GLIBC_2.2.5", "GLIBC_2.36"]),
            "./etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
            "./etc/ld.so.conf.d/x86_64-linux-gnu.conf": b"/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n",
            "./usr/share/doc/libc6/copyright": b"LGPL",
        },
    )
    found.source("FABRIC_1.0", "FABRIC_1.7", "FABRIC_1.8")
    return found


def test_what_fits_is_no_finding_and_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.wheel("nixl-cu13", "1.3.2", {PLUGIN: nixl("FABRIC_1.0", "FABRIC_1.7"), "nixl_cu13/__init__.py": b""})
    first = world.look()
    assert (first.findings, first.unread) == ((), ())
    abi.refuse(CUDA, first)
    monkeypatch.setattr(contents, "read", None)
    assert world.look().image.tree.nodes == first.image.tree.nodes


def test_nixl_that_needs_a_newer_libfabric_is_refused_at_its_pin(world: World) -> None:
    world.wheel("nixl-cu13", "1.5.1", {PLUGIN: nixl("FABRIC_1.0", "FABRIC_1.10")})
    with pytest.raises(InvalidInput) as caught:
        abi.refuse(CUDA, world.look())
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("versions.toml", 77)
    assert problem.what == (
        f"/{make.SITE}/{PLUGIN}: wheel nixl-cu13 1.5.1 needs FABRIC_1.10 of libfabric.so.1; "
        "opt/amazon/efa/lib/libfabric.so.1 (source libfabric 2.1.0) provides FABRIC_1.0, FABRIC_1.7, FABRIC_1.8"
    )
    assert problem.remedy == (
        "move the pin of libfabric 2.1.0 up to a version that has FABRIC_1.10, or that of nixl-cu13 1.5.1 down"
    )
    assert caught.value.exit_code == 2


def test_a_stale_facts_file_is_made_again(world: World) -> None:
    world.wheel("nixl-cu13", "1.5.1", {PLUGIN: nixl("FABRIC_1.10")})
    world.look()
    for path in (world.folder / "cache").rglob("*.json"):
        path.write_text("{")
    assert len(world.look().findings) == 1


def test_cuda_12_in_a_cuda_13_set(world: World) -> None:
    world.wheel("nvidia-cuda-runtime", "13.0", {"nvidia/lib/libcudart.so.13": make.elf(soname="libcudart.so.13")})
    world.wheel("oldkernels", "1.0", {"oldkernels/_C.so": make.elf(needed=["libcudart.so.12"])})
    (finding,) = world.look().findings
    assert "wheel oldkernels 1.0 needs libcudart.so.12" in finding.what
    assert "built for CUDA 12, this image has libcudart.so.13" in finding.what
    assert finding.remedy.startswith("move the pin of oldkernels 1.0")


def test_what_is_not_in_the_store_could_bring_what_is_missing(world: World) -> None:
    world.wheel("unknown", "1.0", {"unknown/libx.so": make.elf(soname="libx.so")}, stored=False)
    world.wheel("user", "1.0", {"user/_C.so": make.elf(needed=["libx.so"]), PLUGIN: nixl("FABRIC_1.10")})
    foreseen = world.look()
    assert [artifact.name for artifact in foreseen.unread] == ["unknown"]
    (finding,) = foreseen.findings
    assert "FABRIC_1.10" in finding.what, "two files that are known and don't fit"


def test_without_the_fabric_nothing_is_said_of_it(world: World) -> None:
    world.source("FABRIC_1.0", stored=False)
    world.sources[0] = replace(world.sources[0], sha256="0" * 64)
    world.wheel("nixl-cu13", "1.5.1", {PLUGIN: nixl("FABRIC_1.10")})
    foreseen = world.look()
    assert (foreseen.findings, [artifact.name for artifact in foreseen.unread]) == ((), ["libfabric"])


def test_an_excuse_of_the_pins_counts(world: World) -> None:
    world.wheel("nixl-cu13", "1.5.1", {PLUGIN: nixl("FABRIC_1.10")})
    selection = replace(CUDA, gates={"abi": {"*/libplugin_LIBFABRIC.so needs libfabric.so.1": "for a test"}})
    foreseen = world.look(selection)
    assert (foreseen.findings, [each.reason for each in foreseen.excused]) == ((), ["for a test"])


def test_a_second_libfabric_is_found(world: World) -> None:
    world.wheel("other", "1.0", {"other.libs/libfabric-0a1b2c3d.so.1": make.elf(soname="libfabric-0a1b2c3d.so.1")})
    found = world.look().findings
    assert any("brings another libfabric" in finding.what for finding in found)


def test_wrong_machine(world: World) -> None:
    world.wheel("user", "1.0", {"user/_C.so": make.elf(machine=183)})
    (finding,) = world.look().findings
    assert "lock the amd64 build of user 1.0" in finding.remedy


def test_the_cpu_variants_stand_ins_answer_for_cuda(world: World) -> None:
    user = make.elf(needed=["libcudart.so.13"], needs={"libcudart.so.13": ["libcudart.so.13"]})
    world.wheel("user", "1.0", {"user/_C.so": user})
    assert world.look(CPU).findings == ()
    assert len(world.look(CUDA).findings) == 1


def test_a_source_without_a_version_script_is_exit_4(world: World) -> None:
    world.source(texts={"Makefile.am": "x"})
    with pytest.raises(WrongArtifact, match="which symbol versions"):
        world.look()


def with_installer(world: World, *versions: str) -> pins.Selection:
    """The world's fabric from a stand-in of the EFA installer."""
    library = make.elf(soname="libfabric.so.1", defines=versions)
    link = tarfile.TarInfo("./opt/amazon/efa/lib/libfabric.so.1")
    link.type, link.linkname = tarfile.SYMTYPE, "libfabric.so.1.9"
    debs = {
        "a.deb": package("libfabric1-aws", {"./opt/amazon/efa/lib/libfabric.so.1.9": library, link.name: link}),
        "rdma-core/b.deb": package("libibverbs1", {"./usr/lib/x86_64-linux-gnu/x": b""}),
        "rdma-core/c.deb": package("ibverbs-providers", {"./usr/lib/x86_64-linux-gnu/y": b""}),
    }
    file = tarball(world.folder / "efa.tar.gz", debs)
    sha256 = world.store.add_file(file)
    world.sources = []
    world.installers = [EfaInstaller("aws-efa-installer", "1.49.0", file.name, file.stat().st_size, sha256)]
    pin = Installer("1.49.0", file.name, sha256, stand_in=WHY)
    return replace(CUDA, fabric="installer", installer=pin)


@pytest.mark.parametrize(("gives", "refused"), [("FABRIC_1.10", 0), ("FABRIC_1.9", 1)])
def test_the_efa_installers_packages_are_read(world: World, gives: str, refused: int) -> None:
    selection = with_installer(world, "FABRIC_1.0", gives)
    world.wheel("nixl-cu13", "1.5.1", {PLUGIN: nixl("FABRIC_1.10")})
    found = world.look(selection).findings
    assert len(found) == refused
    for finding in found:
        assert "opt/amazon/efa/lib/libfabric.so.1.9 (installer libfabric1-aws 1.0-1)" in finding.what


def test_the_table_says_which_fabric_fits(world: World) -> None:
    def fits(selection: pins.Selection, lock: Lock) -> str:
        return abi.fits(selection, lock, world.store, world.folder / "cache")

    world.wheel("nvidia-cuda-runtime", "13.0", {"nvidia/lib/libcudart.so.13": make.elf(soname="libcudart.so.13")})
    world.wheel("nixl-cu13", "1.5.1", {PLUGIN: nixl("FABRIC_1.10")})
    assert fits(CUDA, world.lock) == "not looked at"
    world.look()
    assert fits(CUDA, world.lock) == "no: FABRIC_1.10 is missing"
    lock = world.lock
    assert matrix._other_fabric(CUDA, lock) is not None
    selection = with_installer(world, "FABRIC_1.10")
    assert fits(selection, world.lock) == "yes"
    other = matrix._other_fabric(selection, world.lock)
    assert other is not None
    changed, back = other
    assert (changed.fabric, back.installers, [source.name for source in back.sources]) == ("source", (), ["libfabric"])


def test_a_folder_that_can_not_be_written_costs_time_only(world: World, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    world.wheel("nixl-cu13", "1.3.2", {PLUGIN: nixl("FABRIC_1.0")})
    assert world.look().findings == ()


def test_hard_links_and_links_of_a_package(tmp_path: Path, world: World) -> None:
    library = make.elf(soname="libz.so.1")
    hard, soft = tarfile.TarInfo(f"{LIBRARIES}/libz.so.1.2"), tarfile.TarInfo(f"{LIBRARIES}/libz.so")
    hard.type, hard.linkname = tarfile.LNKTYPE, f"{LIBRARIES}/libz.so.1"
    soft.type, soft.linkname = tarfile.SYMTYPE, "libz.so.1"
    files = {f"{LIBRARIES}/libz.so.1": library, hard.name: hard, soft.name: soft}
    deb, path = make_deb(tmp_path, "zlib1g", files)
    found = contents.read(deb, path, abi.venv_of(CUDA), tmp_path / "cache", None, lambda count: None)
    assert {member.path.rpartition("/")[2]: member.kind for member in found.members} == {
        "libz.so.1": "file",
        "libz.so.1.2": "file",
        "libz.so": "symlink",
    }
    assert contents.kept(deb, abi.venv_of(CUDA), tmp_path / "cache") == found
    other: Artifact = replace(deb, sha256="f" * 64)
    assert contents.kept(other, abi.venv_of(CUDA), tmp_path / "cache") is None
