"""The reference build's context, and the comparison of two trees."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from slipway.errors import BuildFailed
from slipway.layers.cache import LayerCache
from slipway.layers.entry import Entry, file_entry
from slipway.layers.tar import write_tar
from slipway.lock.model import Wheel
from slipway.reference import compare, context
from slipway.store import Store
from tests.unit.debian.debs import tar

OURS = b"#!/opt/venv/bin/python\nimport sys\nfrom a.b import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
THEIRS = (
    b"#!/opt/venv/bin/python\n# -*- coding: utf-8 -*-\nimport sys\nfrom a.b import main\nif x:\n    sys.exit(main())\n"
)


def facts(folder: Path, files: dict[str, bytes]) -> dict[str, str]:
    file = folder / "tree.tar"
    file.write_bytes(tar({f"./{path}": content for path, content in files.items()}))
    return compare.of_tar(file)


def test_what_installers_note_for_themselves_is_left_aside(tmp_path: Path) -> None:
    site = "opt/venv/lib/python3.11/site-packages"
    same = {"opt/venv/bin/tool": OURS, f"{site}/x.py": b"x = 1"}
    other = {
        "opt/venv/bin/tool": THEIRS,
        f"{site}/x.py": b"x = 1",
        f"{site}/__pycache__/x.cpython-311.pyc": b"code",
        f"{site}/x-1.dist-info/RECORD": b"rows",
        f"{site}/x-1.dist-info/INSTALLER": b"uv",
        "opt/venv/bin/activate.fish": b"fish",
        "opt/venv/CACHEDIR.TAG": b"tag",
    }
    assert compare.differences(facts(tmp_path, same), facts(tmp_path, other)) == {}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("opt/venv/lib/python3.11/site-packages/x.py", b"x = 2"),
        ("opt/venv/lib/python3.11/site-packages/x-1.dist-info/METADATA", b"new"),
        ("opt/venv/bin/tool", OURS.replace(b"a.b", b"a.c")),
        ("usr/bin/more", b""),
    ],
)
def test_everything_else_is_told(tmp_path: Path, path: str, content: bytes) -> None:
    before = {"opt/venv/bin/tool": OURS, "opt/venv/lib/python3.11/site-packages/x.py": b"x = 1"}
    found = compare.differences(facts(tmp_path, before), facts(tmp_path, {**before, path: content}))
    assert list(found) == [path]


def uv_wheel() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("uv-1.data/scripts/uv", b"program")
    return out.getvalue()


def wheel(store: Store, name: str, content: bytes) -> Wheel:
    store.add_bytes(content)
    return Wheel(name, "1", f"{name}-1-py3-none-any.whl", len(content), hashlib.sha256(content).hexdigest())


def test_the_context_holds_the_lock_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    wheels = [wheel(store, "uv", uv_wheel()), wheel(store, "a", b"wheel a")]
    layer = LayerCache(tmp_path / "cache").build("a" * 64, lambda out: write_tar([file_entry("etc/x", b"x")], out))
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    files = [
        file_entry("opt/run", b"#!/bin/sh\n", mode=0o755),
        Entry("usr/link", "symlink", 0o777, target="../opt/run"),
    ]
    folder = tmp_path / "context"
    folder.mkdir()
    context.write(folder, tmp_path / "Dockerfile", {"debian": layer}, wheels, files, store)
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()) == [
        *("Dockerfile", "debian.tar", "files/opt/run", "files/usr/link", "requirements.txt", "tools/uv"),
        *("wheels/a-1-py3-none-any.whl", "wheels/uv-1-py3-none-any.whl"),
    ]
    assert (folder / "requirements.txt").read_text().splitlines()[0] == f"a==1 --hash=sha256:{wheels[1].sha256}"
    assert hashlib.sha256((folder / "debian.tar").read_bytes()).hexdigest() == layer.blob.diff_id.removeprefix(
        "sha256:"
    )
    assert (folder / "tools/uv").read_bytes() == b"program"
    assert (folder / "files/opt/run").stat().st_mode & 0o777 == 0o755


def test_without_uv_there_is_no_reference_build(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (tmp_path / "Dockerfile").write_text("")
    (tmp_path / "c").mkdir()
    with pytest.raises(BuildFailed, match="has no uv"):
        context.write(tmp_path / "c", tmp_path / "Dockerfile", {}, [wheel(store, "a", b"a")], [], store)
