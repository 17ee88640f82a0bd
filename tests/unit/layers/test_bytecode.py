"""Byte-code: which modules, what a .pyc says, and bytes that don't depend on what was compiled before."""

from __future__ import annotations

import importlib.util
import io
import lzma
import marshal
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard

from slipway.debian.deb import unpack
from slipway.errors import InvalidInput, UsageError, WrongArtifact
from slipway.layers import bytecode as module
from slipway.layers.bytecode import NO_BYTECODE, Bytecode, compiled, compiler, dump_list, pyc_path, read_list
from slipway.layers.cache import LayerCache
from slipway.layers.image_python import ImagePython, image_python, python_debs
from slipway.layers.wheels import Options, build_group, plan_wheels
from slipway.lock.model import Deb
from slipway.wheel.content import OpenWheel
from slipway.wheel.paths import Venv
from tests.unit.layers.conftest import Warehouse

SITE = "opt/venv/lib/python3.11/site-packages"


class HostPython(ImagePython):
    """This test's own interpreter in place of the image's."""

    before = ""

    def argv(self, program: str) -> list[str]:
        return [sys.executable, "-s", "-S", "-B", "-W", "ignore", "-c", self.before + program]

    def environment(self) -> dict[str, str]:
        return {"PYTHONHASHSEED": "0"}


PYTHON = HostPython(Path("/"), "3.11", "amd64")

SOURCES = {
    "a.py": "import os.path\ndef f(x, *, key='.'): return {x, 'alpha', 'beta', None} - {'.', 'é'}\n",
    "b.py": "'''doc'''\né = 1\nclass K:\n"
    "    alpha: int = 5\n    def m(self): return [beta for beta in (self, 'é', '.')]\n",
    "c.py": "x = ('alpha', ('beta', b'z', 1.5, 10**20, ...), frozenset({1}))\nif x in {'é', 'alpha', 'gamma'}: pass\n",
    "d.py": "async def g():\n    async for i in g(): yield f'{i!r:>{10}}'\n"
    "    match i:\n        case {'alpha': [a, *_]}: pass\n",
    "e.py": "",
    "latin.py": "# -*- coding: latin-1 -*-\nx = 'é'\n",
    "broken.py": "def f(:\n",
    "py2.py": "print 'x'\n",
    "nul.py": "x = 1\0\n",
    "template.py": "{{ name }} = 1 +\n",
}


def encoded(name: str) -> bytes:
    return SOURCES[name].encode("latin-1" if name == "latin.py" else "utf-8")


class BusyPython(HostPython):
    """The same, in a process that holds most of the strings that the sources hold."""

    before = "import sys; HELD = [[sys.intern(name) for name in ('alpha', 'beta', 'gamma', 'K', 'm', 'self')]] * 3\n"


def compile_all(names: Iterable[str], python: ImagePython = PYTHON) -> dict[str, tuple[bool, bytes]]:
    with compiler(python) as ask:
        return {name: ask(f"/{SITE}/{name}", encoded(name)) for name in names}


def test_bytes_do_not_depend_on_the_order() -> None:
    names = sorted(SOURCES)
    first = compile_all(names)
    for seed in range(4):
        shuffled = names * 2
        random.Random(seed).shuffle(shuffled)  # noqa: S311
        assert compile_all(shuffled) == first
    for name in names:
        assert compile_all([name])[name] == first[name]


def test_bytes_do_not_depend_on_what_else_the_process_holds() -> None:
    """marshal sets FLAG_REF by reference counts."""
    assert compile_all(sorted(SOURCES), BusyPython(Path("/"), "3.11", "amd64")) == compile_all(sorted(SOURCES))


def test_a_pyc_is_unchecked_and_knows_its_place(tmp_path: Path) -> None:
    ok, content = compile_all(["b.py"])["b.py"]
    assert ok
    assert content[:4] == importlib.util.MAGIC_NUMBER
    assert content[4:8] == b"\1\0\0\0"
    assert content[8:16] == importlib.util.source_hash(encoded("b.py"))
    assert marshal.loads(content[16:]).co_filename == f"/{SITE}/b.py"  # noqa: S302
    package = tmp_path / "pkg"
    (package / "__pycache__").mkdir(parents=True)
    (package / "b.py").write_text("raise SystemExit('the source was run')\n")
    (package / "__pycache__" / f"b.{sys.implementation.cache_tag}.pyc").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import b; print(b.K.alpha)"],
        cwd=package,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "5\n"


@pytest.mark.parametrize("name", ["broken.py", "py2.py", "nul.py", "template.py"])
def test_what_is_no_python_is_skipped(name: str) -> None:
    ok, answer = compile_all([name])[name]
    assert not ok and b"Error" in answer


def test_pyc_path() -> None:
    assert pyc_path(f"{SITE}/ray/__init__.py", Venv()) == f"{SITE}/ray/__pycache__/__init__.cpython-311.pyc"


def test_list(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    assert read_list(path) == frozenset()
    path.write_text(dump_list(["b/c.py", "a.py", "a.py"], "made by a test\nof lists"))
    assert path.read_text() == "# made by a test\n# of lists\na.py\nb/c.py\n"
    assert read_list(path) == {"a.py", "b/c.py"}
    path.write_text("a.py\n\n/b.py\nc.so\n../d.py\n e.py # fine\n")
    with pytest.raises(InvalidInput) as caught:
        read_list(path)
    assert [problem.line for problem in caught.value.problems] == [3, 4, 5]


def deb(name: str, version: str = "1") -> Deb:
    return Deb(name, version, f"{name}.deb", 1, name, arch="amd64")


NAMES = ["libc6", "libexpat1", "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal", "zlib1g"]


def test_packages_of_python() -> None:
    debs = [deb(name) for name in [*reversed(NAMES), "bash"]]
    assert [d.name for d in python_debs(debs, "3.11")] == NAMES
    with pytest.raises(UsageError, match="python3.12-minimal"):
        python_debs(debs, "3.12")


def make_deb(path: Path, kind: str = "xz", files: dict[str, bytes] | None = None) -> Path:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in (files or {"./usr/bin/tool": b"tool"}).items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
        for name, target in {
            "./usr/lib/in": "../bin/tool",
            "./usr/lib/out": "../../../x",
            "./usr/lib/abs": "/x",
        }.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    packed = {
        "xz": lzma.compress,
        "zst": zstandard.ZstdCompressor().compress,
        "": bytes,
    }[kind](data.getvalue())
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", f"data.tar{'.' + kind if kind else ''}": packed}
    raw = b"!<arch>\n"
    for name, content in members.items():
        raw += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        raw += b"\n" * (len(content) % 2)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("kind", ["xz", "zst", ""])
def test_deb(tmp_path: Path, kind: str) -> None:
    files = {"./usr/bin/tool": b"tool", "./etc/x": b"1"}
    unpack(make_deb(tmp_path / "x.deb", kind, files), tmp_path / "a/root", lambda path: path.startswith("usr/"))
    found = {path.relative_to(tmp_path / "a/root").as_posix() for path in (tmp_path / "a/root").rglob("*")}
    assert found == {"usr", "usr/bin", "usr/bin/tool", "usr/lib", "usr/lib/in"}
    assert (tmp_path / "a/root/usr/lib/in").read_bytes() == b"tool"
    assert os.access(tmp_path / "a/root/usr/bin/tool", os.X_OK)


def test_a_deb_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongArtifact, match="leads out"):
        unpack(make_deb(tmp_path / "x.deb", "xz", {"../../evil": b"2"}), tmp_path / "a/root", lambda path: True)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("damage", [lambda raw: b"x" + raw, lambda raw: raw[:150], lambda raw: raw[:-300]])
def test_damaged_deb(tmp_path: Path, damage: object) -> None:
    path = make_deb(tmp_path / "x.deb")
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(WrongArtifact):
        unpack(path, tmp_path / "root", lambda path: True)


def test_python_is_unpacked_once(warehouse: Warehouse) -> None:
    file = make_deb(warehouse.root / "python.deb", files={"./usr/bin/python3.11": b"1"})
    sha256 = warehouse.store.add_file(file)
    debs = (Deb("libc6", "1", "python.deb", file.stat().st_size, sha256, arch="amd64"),)
    found = image_python(debs, "3.11", warehouse.store, warehouse.root / "cache")
    assert (found.root / "usr/bin/python3.11").read_bytes() == b"1"
    warehouse.damage(debs[0])
    assert image_python(debs, "3.11", warehouse.store, warehouse.root / "cache") == found
    assert [path.name for path in (warehouse.root / "cache/python").iterdir()] == [found.root.name]


@pytest.fixture
def host_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compile with this interpreter; counts how often one was asked for."""
    asked: list[int] = []

    def here(*_: object) -> HostPython:
        asked.append(1)
        return PYTHON

    monkeypatch.setattr(module, "image_python", here)
    return asked


FILES = {"pkg/__init__.py": "x = 1\n", "pkg/other.py": "y = 1\n", "pkg/broken.py": "def (\n"}


def test_layer_with_bytecode(warehouse: Warehouse, host_python: list[int]) -> None:
    wheel = warehouse.wheel("pkg", files=FILES)
    modules = frozenset({"pkg/__init__.py", "pkg/broken.py", "gone/x.py"})
    cache = LayerCache(warehouse.root / "cache")
    options = Options(bytecode=Bytecode((deb("libc6"),), modules))
    plan = plan_wheels([wheel], options, warehouse.store, cache)
    assert plan.notes == ("1 lines of the byte-code list name no module of the image, e.g. gone/x.py",)
    layer = build_group(plan.groups[0], options, warehouse.store, cache)
    assert layer.notes["no_bytecode"].keys() == {f"{SITE}/pkg/broken.py"}
    data = zstandard.ZstdDecompressor().stream_reader(layer.path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        codes = [member.name for member in archive if member.name.endswith(".pyc")]
        record = archive.extractfile(f"{SITE}/pkg-1.0.dist-info/RECORD")
        assert record is not None
        assert b"\npkg/__pycache__/__init__.cpython-311.pyc,,\n" in record.read()
    assert codes == [f"{SITE}/pkg/__pycache__/__init__.cpython-311.pyc"]
    plain = plan_wheels([wheel], Options(), warehouse.store, cache)
    assert plain.groups[0].key != plan.groups[0].key
    assert "bytecode" not in plain.groups[0].inputs
    unlisted = plan_wheels(
        [wheel], Options(bytecode=Bytecode((deb("libc6"),), frozenset({"gone.py"}))), warehouse.store, cache
    )
    assert unlisted.groups[0].key == plain.groups[0].key


def test_bytecode_is_kept_per_wheel(warehouse: Warehouse, host_python: list[int], tmp_path: Path) -> None:
    wheel = warehouse.wheel("pkg", files=FILES)
    paths = [f"{SITE}/{name}" for name in FILES]
    code = Bytecode((deb("libc6"),), frozenset(FILES))

    def again() -> module.Compiled:
        with OpenWheel(warehouse.store.path(wheel.sha256), wheel, Venv()) as opened:
            return compiled(opened, paths, code, warehouse.store, tmp_path / "cache")

    first = again()
    assert len(first.files) == 2 and len(host_python) == 1
    assert again() == first and len(host_python) == 1
    (kept,) = (tmp_path / "cache/bytecode").rglob("*.zst")
    raw = kept.read_bytes()
    for damaged in (b"", raw[:-5], raw[:20] + b"\0" + raw[21:], zstandard.ZstdCompressor().compress(b"{}\n")):
        kept.write_bytes(damaged)
        assert again() == first
    assert len(host_python) == 5


def test_wheels_own_bytecode_stays(warehouse: Warehouse, host_python: list[int]) -> None:
    shipped = "pkg/__pycache__/__init__.cpython-311.pyc"
    wheel = warehouse.wheel("pkg", files={"pkg/__init__.py": "", shipped: "shipped"})
    cache = LayerCache(warehouse.root / "cache")
    plan = plan_wheels([wheel], Options(bytecode=Bytecode((), frozenset({"pkg/__init__.py"}))), warehouse.store, cache)
    assert plan.groups[0].modules == {"pkg": ()} and plan.notes == ()


def test_no_list_no_bytecode() -> None:
    assert NO_BYTECODE.by_wheel({}, {}, Venv()) == ({}, [])
