"""An image for another processor than this machine's: what can be proven of it without such a machine.

    python3 build.py build --variant cuda --arch arm64      then this file (it looks into out/)

Every ELF file is for that processor, every file is what its wheel's RECORD says, and the image's own Python imports
numpy under qemu's user emulator.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import platform
import posixpath
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

import pytest
import zstandard

from slipway.cli.common import ROOT
from slipway.gates import abi
from slipway.gates.model import GateSettings
from slipway.inspect.image import Image, read_image
from slipway.inspect.layout import LayerRef, open_layout
from slipway.inspect.stream import LayerStream
from slipway.inspect.untar import TarReader
from tests.container.builds import default_cache

HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
BINFMT = Path("/proc/sys/fs/binfmt_misc")
EMULATORS = {"arm64": "qemu-aarch64", "amd64": "qemu-x86_64"}
RECORD = re.compile(r"opt/venv/lib/python3\.\d+/site-packages/[^/]+\.dist-info/RECORD")
"""Not those that packages carry along for what they vendor."""

IMPORT = """
import platform, numpy
made = numpy.arange(12.0).reshape(3, 4)
print(platform.machine(), numpy.__version__, (made @ made.T).sum())
"""


def layouts() -> list[Path]:
    """Finished images of other architectures in out/."""
    found = sorted(path.parent for path in (ROOT / "out").glob("*/index.json"))
    return [folder for folder in found if HERE and open_layout(folder).architecture != HERE]


@pytest.fixture(scope="module")
def image() -> Image:
    found = layouts()
    if not found:
        pytest.skip("no image of another architecture in out/ (python3 build.py build --variant cuda --arch arm64)")
    return read_image(found[0], cache=default_cache() / "inspect")


def test_every_elf_file_is_for_its_processor(image: Image) -> None:
    machines: dict[str, int] = {}
    for node in image.tree.files():
        facts = node.member.elf
        if facts is not None and facts.for_host:
            machines[facts.machine] = machines.get(facts.machine, 0) + 1
    assert set(machines) == {image.layout.architecture}
    assert machines[image.layout.architecture] > 500
    wrong = [finding for finding in abi.check(image, GateSettings()) if "the image is for" in finding.what]
    assert wrong == []


def tar(ref: LayerRef) -> Iterator[tuple[TarReader, str]]:
    """The files of a layer, at each of which its content can be read."""
    with ref.path.open("rb") as file:
        stream = LayerStream(ref, file)
        reader = TarReader(stream, ref.name)
        for member in reader:
            if member.kind == "file":
                yield reader, member.path
        stream.finish()


def rows(records: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """(path, sha256 in hex) of all RECORD files."""
    for path, content in records.items():
        site = posixpath.dirname(posixpath.dirname(path))
        for name, spelled, *_ in csv.reader(io.StringIO(content.decode())):
            algorithm, _, digits = spelled.partition("=")
            if algorithm == "sha256":
                digest = base64.urlsafe_b64decode(digits + "=" * (-len(digits) % 4)).hex()
                yield posixpath.normpath(f"{site}/{name}"), digest


def test_every_file_is_what_record_says(image: Image) -> None:
    """The image's bytes, read back, against the RECORD files in it."""
    records = {
        path: b"".join(reader.content())
        for ref in image.layout.layers
        for reader, path in tar(ref)
        if RECORD.fullmatch(path)
    }
    assert len(records) == sum(package.kind == "wheel" for package in image.packages)
    checked = 0
    for path, digest in rows(records):
        node = image.tree.get(path)
        assert node is not None, f"{path} is in RECORD and not in the image"
        assert node.member.sha256 == digest, f"{path} is not what RECORD says"
        checked += 1
    assert checked > 100 * len(records), "most wheels have many files"


def test_numpy_is_imported_under_qemu(image: Image, tmp_path: Path) -> None:
    arch = image.layout.architecture
    if os.geteuid() != 0:
        pytest.skip("chroot takes root")
    if not (BINFMT / EMULATORS[arch]).exists():
        pytest.skip("not run: this machine does not run programs for it (apt-get install qemu-user-static)")
    root = tmp_path / "root"
    for ref in image.layout.layers:
        unpack(image, ref, root)
    done = subprocess.run(
        ["chroot", str(root), "/opt/venv/bin/python", "-c", IMPORT],
        env={
            "PATH": "/usr/sbin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    machine, version, total = done.stdout.split()
    assert machine == {"arm64": "aarch64", "amd64": "x86_64"}[arch]
    assert version in {package.version for package in image.packages if package.name == "numpy"}
    assert float(total) == 1134.0


def unpack(image: Image, ref: LayerRef, root: Path) -> None:
    """The system, the venv, the loader's cache, and of the wheels numpy only."""
    wanted = {
        member.path
        for member in image.indexes[ref.number].members
        if ref.name in ("debian", "venv", "ldcache") or member.owner.startswith("wheel numpy ")
    }
    if not wanted:
        return
    with ref.path.open("rb") as file:
        stream = cast(IO[bytes], zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.name.strip("/").removeprefix("./") in wanted:
                    archive.extract(member, root, filter="tar")
