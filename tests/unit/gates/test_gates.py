"""The other gates, each against a small image that is right and one that is wrong in just one way."""

from __future__ import annotations

import tarfile
from pathlib import Path

import image_builder as make
import pytest

from slipway.gates import (
    budget,
    copies,
    driver,
    duplicates,
    layering,
    ldcache,
    leftovers,
    ownership,
    pth,
    runpath,
    secrets,
    setuid,
    ssh,
    user,
    writable,
)
from slipway.gates.model import Finding, Gate, GateSettings
from slipway.gates.run import GATES, check_image
from slipway.inspect.image import read_image

Members = dict[str, make.Item | bytes | str | None]
KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz\n"
GOOD: Members = {
    "bin": "usr/bin",
    "tmp": make.Item(mode=0o1777),
    "var/tmp": make.Item(mode=0o1777),
    "run/lock": make.Item(mode=0o1777),
    "var/mail": make.Item(mode=0o2775, gid=8),
    "var/lib/apt/lists/lock": b"",
    "var/lib/apt/lists/partial": make.Item(mode=0o700, uid=42),
    "var/log/wtmp": make.Item(b"", mode=0o664, gid=43),
    "etc/shadow": make.Item(b"root:*", mode=0o640, gid=42),
    "etc/machine-id": b"",
    "etc/apt/sources.list.d/debian.sources": b"URIs: http://mirror.example/debian\n",
    "home/ray": make.Item(mode=0o2775, uid=1000),
    "home/ray/.bashrc": make.Item(b"x", uid=1000),
    "usr/lib/liba.so": make.elf(soname="liba.so", rpath="$ORIGIN/x:/usr/lib/a"),
    **make.wheel("x", "1", {"x/__init__.py": b"", "x/__pycache__/m.pyc": b"\xa7\r\r\n\x01" + bytes(11)}),
}


def found(gate: Gate, folder: Path, *layers: Members | bytes, config: dict[str, object] | None = None) -> list[Finding]:
    image = read_image(make.layout(folder, [GOOD, *layers], names=["base", "one", "two"], config=config))
    return list(gate.check(image, GateSettings()))


def subjects(findings: list[Finding]) -> list[str]:
    return [finding.subject for finding in findings]


def test_a_good_image_passes_every_gate(tmp_path: Path) -> None:
    report = check_image(read_image(make.layout(tmp_path, [GOOD])), GateSettings(compressed_mb=1))
    assert report.findings("error") + report.findings("warning") == []
    assert len(report.results) == len(GATES) == 17


BAD: list[tuple[Gate, Members, list[str]]] = [
    (setuid, {"usr/bin/su": make.Item(b"x", mode=0o4755)}, ["usr/bin/su"]),
    (setuid, {"usr/bin/wall": make.Item(b"x", mode=0o2755)}, ["usr/bin/wall"]),
    (setuid, {"usr/bin/ping": make.Item(b"x", xattrs={"security.capability": "x"})}, ["usr/bin/ping"]),
    (writable, {"opt/x": make.Item(mode=0o777)}, ["opt/x"]),
    (writable, {"opt/x": make.Item(b"", mode=0o666)}, ["opt/x"]),
    (writable, {"dev/shm": make.Item(mode=0o777)}, ["dev/shm"]),
    (ownership, {"opt/x": make.Item(b"", uid=1000)}, ["opt/x"]),
    (ownership, {"opt/x": make.Item(b"", gid=5)}, ["opt/x"]),
    (ownership, {"etc/gshadow": make.Item(b"", gid=43)}, ["etc/gshadow"]),
    (secrets, {"etc/key.pem": KEY}, ["etc/key.pem"]),
    (secrets, {"root/.netrc": b"machine x"}, ["root/.netrc"]),
    (secrets, {"home/ray/.docker/config.json": b"{}"}, ["home/ray/.docker/config.json"]),
    (secrets, {"home/ray/.aws/credentials": b"[default]"}, ["home/ray/.aws/credentials"]),
    (secrets, {"etc/pip.conf": b"index-url = https://me:pw@host/simple"}, ["etc/pip.conf"]),
    (secrets, {"etc/apt/sources.list": b"deb http://u:p@host/ x main"}, ["etc/apt/sources.list"]),
    (ssh, {"usr/sbin/sshd": b"x"}, ["usr/sbin/sshd"]),
    (ssh, {"etc/ssh/ssh_host_rsa_key": b"x"}, ["etc/ssh/ssh_host_rsa_key"]),
    (ssh, {"root/.ssh/authorized_keys": b"x"}, ["root/.ssh/authorized_keys"]),
    (ssh, {"opt/id_ed25519": b"x"}, ["opt/id_ed25519"]),
    (driver, {"usr/lib/libcuda.so.1": make.elf(soname="libcuda.so.1")}, ["usr/lib/libcuda.so.1"]),
    (driver, {"opt/libnvidia-ml.so.1": make.elf()}, ["opt/libnvidia-ml.so.1"]),
    (driver, {f"{make.SITE}/nvidia/cu13/lib/stubs/libcuda.so": make.elf(soname="libcuda.so.1")}, []),
    (ldcache, {"etc/ld.so.cache": b"junk"}, ["etc/ld.so.cache"]),
    (pth, {f"{make.SITE}/new.pth": b"import os; os.system('x')"}, [f"{make.SITE}/new.pth"]),
    (pth, {f"{make.SITE}/sitecustomize.py": b"x"}, [f"{make.SITE}/sitecustomize.py"]),
    (leftovers, {"var/lib/apt/lists/deb_Packages": b"x"}, ["var/lib/apt/lists/deb_Packages"]),
    (leftovers, {"var/cache/apt/pkgcache.bin": b"x"}, ["var/cache/apt/pkgcache.bin"]),
    (leftovers, {"var/cache/apt/archives/a.deb": b"x"}, ["var/cache/apt/archives/a.deb"]),
    (leftovers, {"var/log/dpkg.log": b"x"}, ["var/log/dpkg.log"]),
    (leftovers, {"var/lib/dpkg/status-old": b"x"}, ["var/lib/dpkg/status-old"]),
    (leftovers, {"root/.cache/pip/x": b"x"}, ["root/.cache/pip/x"]),
    (leftovers, {"home/ray/.bash_history": b"x"}, ["home/ray/.bash_history"]),
    (leftovers, {"tmp/x": b"x"}, ["tmp/x"]),
    (leftovers, {"etc/hostname": b"build-7\n"}, ["etc/hostname"]),
    (leftovers, {"etc/machine-id": b"0123456789abcdef0123456789abcdef\n"}, ["etc/machine-id"]),
    (leftovers, {"build/x": b"x"}, ["build"]),
    (leftovers, {"dev/null": make.Item(kind=tarfile.CHRTYPE)}, ["dev/null"]),
    (leftovers, {"opt/m.pyc": b"\xa7\r\r\n" + bytes(12)}, ["opt/m.pyc"]),
    (
        leftovers,
        {f"{make.SITE}/x-1.dist-info/direct_url.json": b'{"url": "file:///build/x"}'},
        [f"{make.SITE}/x-1.dist-info/direct_url.json"],
    ),
    (leftovers, {"etc/apt/sources.list": b"deb [trusted=yes] http://x y z\n"}, ["etc/apt/sources.list"]),
    (runpath, {"usr/lib/b.so": make.elf(rpath="/tmp/build/lib")}, ["usr/lib/b.so"]),
    (runpath, {"usr/lib/b.so": make.elf(runpath="lib")}, ["usr/lib/b.so"]),
    (runpath, {"usr/lib/b.so": make.elf(runpath="/usr/lib:")}, ["usr/lib/b.so"]),
    (runpath, {"usr/lib/b.so": make.elf(runpath="/opt/w"), "opt/w": make.Item(mode=0o777)}, ["usr/lib/b.so"]),
    (layering, {"usr/lib/liba.so": b"other"}, ["usr/lib/liba.so"]),
    (layering, {".wh.bin": b""}, ["bin"]),
    (layering, {"tmp": make.Item(mode=0o755)}, ["tmp"]),
    (layering, {"usr/lib": "lib64"}, ["usr/lib"]),
    (layering, {"home/ray/.bashrc/x": b""}, ["home/ray/.bashrc"]),
    (layering, {"bin/new": b""}, ["bin/new"]),
    (layering, {"etc/ld.so.cache": b"x"}, []),
]


@pytest.mark.parametrize(("gate", "members", "expected"), BAD, ids=lambda value: getattr(value, "NAME", None))
def test_one_wrong_thing(tmp_path: Path, gate: Gate, members: Members, expected: list[str]) -> None:
    findings = found(gate, tmp_path, members)
    assert subjects(findings) == expected
    for finding in findings:
        assert finding.severity == "error"
        assert finding.what
        assert finding.why
        assert finding.remedy


def test_secrets_are_named_and_not_shown(tmp_path: Path) -> None:
    config: dict[str, object] = {
        "Env": ["HF_TOKEN=hunter2", "PATH=/bin", "EMPTY_TOKEN="],
        "Labels": {"x": "ghp_" + "a" * 36},
    }
    findings = found(secrets, tmp_path, {"etc/key.pem": KEY}, config=config)
    assert subjects(findings) == ["etc/key.pem", "config.Env.HF_TOKEN", "config.Labels.x"]
    assert not [finding for finding in findings if "hunter2" in repr(finding) or "b3Blb" in repr(finding)]


def test_a_secret_in_the_history(tmp_path: Path) -> None:
    step = {"created_by": "RUN pip install -i https://me:pw@host/simple x"}
    image = read_image(make.layout(tmp_path, [GOOD], history=[step]))
    assert subjects(list(secrets.check(image, GateSettings()))) == ["config.history"]


@pytest.mark.parametrize("name", ["", "0", "root", "0:1000", "ray", "ray:0"])
def test_users_that_are_refused(tmp_path: Path, name: str) -> None:
    assert subjects(found(user, tmp_path, config={"User": name})) == ["config.User"]


@pytest.mark.parametrize("name", ["1000", "1000:0", "65532:65532"])
def test_users_that_are_fine(tmp_path: Path, name: str) -> None:
    assert found(user, tmp_path, config={"User": name}) == []


def test_equal_files_in_two_layers_are_a_warning(tmp_path: Path) -> None:
    (finding,) = found(layering, tmp_path, {"opt/x": b"1"}, {"opt/x": b"1"})
    assert finding.severity == "warning"
    assert "layers one and two" in finding.what


def library(family: str, ident: bytes) -> bytes:
    return make.elf(soname=f"lib{family}.so.1", build_id=ident)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("usr/lib/libfabric.so.1", "opt/amazon/efa/lib/libfabric.so.1.29.0"),
        ("usr/lib/libibverbs.so.1.14.44.0", f"{make.SITE}/nixl_cu13.libs/libibverbs-1de1263b.so.1.14.48.0"),
        (f"{make.SITE}/nvidia/nccl/lib/libnccl.so.2", "usr/lib/libnccl.so.2.28.3"),
        (f"{make.SITE}/nvidia/cu13/lib/libcudart.so.13", f"{make.SITE}/x/libcudart-0a1b2c3d.so.12.8.90"),
    ],
)
def test_two_of_what_must_be_one(tmp_path: Path, one: str, two: str) -> None:
    (finding,) = found(copies, tmp_path, {one: library("x", b"1")}, {two: library("x", b"2")})
    assert finding.subject in (one, two)
    assert one in repr(finding)
    assert two in repr(finding)


def test_the_copy_in_the_loaders_cache_is_the_first(tmp_path: Path) -> None:
    cache = make.ld_cache({"libfabric.so.1": "/usr/lib/libfabric.so.1"})
    members: Members = {
        "usr/lib/libfabric.so.1": library("fabric", b"1"),
        "opt/libfabric.so.1": library("fabric", b"2"),
        "etc/ld.so.cache": cache,
    }
    assert subjects(found(copies, tmp_path, members)) == ["opt/libfabric.so.1"]


def test_a_stale_loader_cache(tmp_path: Path) -> None:
    members: Members = {
        "etc/ld.so.conf": b"/opt/efa/lib\n",
        "opt/efa/lib/libefa.so.1.2": make.elf(soname="libefa.so.1"),
        "opt/efa/lib/plugin.so": make.elf(soname="plugin.so"),
        "etc/ld.so.cache": make.ld_cache({"libgone.so.1": "/usr/lib/libgone.so.1", "liba.so": "/usr/lib/liba.so"}),
    }
    assert [finding.what for finding in found(ldcache, tmp_path, members)] == [
        "the loader's cache names files that are not there: /usr/lib/libgone.so.1",
        "the loader's cache lacks libraries of its folders: opt/efa/lib/libefa.so.1.2",
    ]


def test_a_stub_that_the_cache_knows_is_found(tmp_path: Path) -> None:
    members: Members = {
        "opt/stubs/libcuda.so.1": make.elf(soname="libcuda.so.1"),
        "etc/ld.so.cache": make.ld_cache({"libcuda.so.1": "/opt/stubs/libcuda.so.1"}),
    }
    assert subjects(found(driver, tmp_path, members)) == ["opt/stubs/libcuda.so.1"]


def test_names_that_only_look_alike(tmp_path: Path) -> None:
    members: Members = {
        f"usr/lib/lib{name}.so": library(name, name.encode()) for name in ("nvrtc", "nvrtc-builtins", "cudart_x")
    }
    members["usr/lib/stubs/libnvrtc.so"] = library("nvrtc", b"stub")
    assert found(copies, tmp_path, members) == []


BIG = make.elf(soname="libbig.so", padding=1_100_000)


def test_big_duplicates(tmp_path: Path) -> None:
    one = make.wheel("one", "1", {"one/libbig.so": BIG, "one/libbig.so.1": BIG})
    two = make.wheel("two", "1", {"two/libbig.so": BIG})
    findings = found(duplicates, tmp_path, one, two)
    assert [(f.subject.rpartition("/")[2], f.severity) for f in findings] == [
        ("libbig.so.1", "note"),
        ("libbig.so", "error"),
    ]


def test_links_and_small_files_are_no_duplicates(tmp_path: Path) -> None:
    small = make.elf()
    members: Members = {
        "opt/libbig.so": BIG,
        "opt/a.so": make.Item(target="opt/libbig.so", hard=True),
        "opt/b.so": "libbig.so",
        "opt/s1.so": small,
        "opt/s2.so": small,
    }
    assert found(duplicates, tmp_path, members) == []


def test_nvidia_libraries_of_any_size(tmp_path: Path) -> None:
    members: Members = {f"{make.SITE}/nvidia/{name}/lib/libx.so": make.elf(soname="x") for name in ("a", "b")}
    assert len(found(duplicates, tmp_path, members)) == 1


def test_budgets(tmp_path: Path) -> None:
    import random

    noise = random.Random(1).randbytes(2_500_000)  # noqa: S311
    image = read_image(make.layout(tmp_path, [GOOD, {"opt/x": noise}, {"opt/y": b""}], names=["base", "noise", "last"]))
    assert list(budget.check(image, GateSettings(compressed_mb=3, layer_mb=3, layers=3))) == []
    findings = list(budget.check(image, GateSettings(compressed_mb=2, layer_mb=2, layers=2)))
    assert subjects(findings) == ["image", "layer noise", "layers"]
    assert "2.5 MB compressed, 2 are allowed; the biggest: noise 2.5" in findings[0].what
    assert list(budget.check(image, GateSettings(compressed_mb=0, layer_mb=0, layers=0))) == []
