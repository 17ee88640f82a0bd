"""What installing a wheel gives: paths, modes, scripts, RECORD; and the wheels that are refused."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from slipway.errors import BuildFailed, UsageError
from slipway.layers.tar import complete
from slipway.layers.wheels import entries_of
from slipway.lock.model import Wheel
from slipway.lock.tags import image_tags
from slipway.wheel import record, scripts
from slipway.wheel.content import OpenWheel
from slipway.wheel.install import File
from slipway.wheel.paths import Venv
from slipway.wheel.refused import RefusedWheel
from tests.unit.wheel.maker import Spec, make_wheel, record_hash

SITE = "opt/venv/lib/python3.11/site-packages"
INFO = f"{SITE}/demo-1.0.dist-info"
TAGS = frozenset(image_tags("3.11", "2.36", "amd64"))


def opened(made: tuple[Wheel, Path], **options: object) -> OpenWheel:
    wheel, path = made
    return OpenWheel(path, wheel, Venv(), **{"tags": TAGS, **options})  # type: ignore[arg-type]


def installed(made: tuple[Wheel, Path], **options: object) -> dict[str, tuple[int, bytes]]:
    with opened(made, **options) as wheel:
        return {
            entry.path: (entry.mode, b"".join(entry.read()) if entry.read else b"-> " + entry.target.encode())
            for entry in entries_of(wheel)
        }


def rows(content: bytes) -> dict[str, tuple[str, str]]:
    return {path: (hashed, size) for path, hashed, size in csv.reader(content.decode().splitlines())}


def test_plain_wheel(tmp_path: Path) -> None:
    files = installed(make_wheel(tmp_path))
    assert files[f"{SITE}/demo/__init__.py"] == (0o644, b"x = 1\n")
    assert files[f"{INFO}/INSTALLER"] == (0o644, b"slipway\n")
    assert set(files) == {
        f"{SITE}/demo/__init__.py",
        *(f"{INFO}/{name}" for name in ("INSTALLER", "METADATA", "RECORD", "WHEEL")),
    }


def test_schemes(tmp_path: Path) -> None:
    files = installed(
        make_wheel(
            tmp_path,
            name="demo-pkg",
            files={
                "demo_pkg-1.0.data/purelib/pure.py": "1",
                "demo_pkg-1.0.data/platlib/plat/p.so": "2",
                "demo_pkg-1.0.data/headers/sub/h.h": "3",
                "demo_pkg-1.0.data/data/share/man/d.1": "4",
                "demo_pkg-1.0.data/data/lib/libx.so": "5",
                "demo_pkg-1.0.data/scripts/tool": "#!/bin/sh\n",
            },
        )
    )
    assert files[f"{SITE}/pure.py"][1] == b"1"
    assert files[f"{SITE}/plat/p.so"][1] == b"2"
    assert files["opt/venv/include/site/python3.11/demo-pkg/sub/h.h"][1] == b"3"
    assert files["opt/venv/share/man/d.1"][1] == b"4"
    assert files["opt/venv/lib/libx.so"][1] == b"5"
    assert files["opt/venv/bin/tool"] == (0o755, b"#!/bin/sh\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"#!python\nprint(1)\n", b"#!/opt/venv/bin/python\nprint(1)\n"),
        (b"#!pythonw -E\r\nprint(1)\n", b"#!/opt/venv/bin/python\nprint(1)\n"),
        (b"#!python", b"#!/opt/venv/bin/python\n"),
        (b"#!/usr/bin/env python\n", b"#!/usr/bin/env python\n"),
        (b"#!pytho", b"#!pytho"),
        (b"", b""),
        (b"\x7fELF" + bytes(2_000_000), b"\x7fELF" + bytes(2_000_000)),
    ],
)
def test_first_lines_of_scripts(tmp_path: Path, before: bytes, after: bytes) -> None:
    files = installed(make_wheel(tmp_path, files={"demo-1.0.data/scripts/tool": before}))
    assert files["opt/venv/bin/tool"] == (0o755, after)
    listed = rows(files[f"{INFO}/RECORD"][1])
    assert listed["../../../bin/tool"] == (record_hash(after), str(len(after)))


def test_entry_points(tmp_path: Path) -> None:
    points = "[console_scripts]\nrun-it = demo.cli : main.go [extra]\n[gui_scripts]\nWin=demo:gui\n[other]\nx/y = 1\n"
    files = installed(make_wheel(tmp_path, entry_points=points))
    mode, content = files["opt/venv/bin/run-it"]
    assert mode == 0o755
    assert content.startswith(b"#!/opt/venv/bin/python\n")
    assert b"from demo.cli import main\n" in content and b"sys.exit(main.go())" in content
    assert scripts.launcher_target(content) == "demo.cli:main.go"
    assert "opt/venv/bin/Win" in files
    assert rows(files[f"{INFO}/RECORD"][1])["../../../bin/run-it"] == (record_hash(content), str(len(content)))


def test_launcher_runs(tmp_path: Path) -> None:
    content = scripts.launchers(b"[console_scripts]\nx = json:dumps\n", "w", "m", "/opt/venv/bin/python")["x"]
    compile(content, "x", "exec")


def test_entry_point_takes_the_place_of_a_script(tmp_path: Path) -> None:
    files = installed(
        make_wheel(
            tmp_path,
            files={"demo-1.0.data/scripts/tool": "#!python\nold\n"},
            entry_points="[console_scripts]\ntool = demo:main\n",
        )
    )
    assert b"from demo import main" in files["opt/venv/bin/tool"][1]


@pytest.mark.parametrize(
    "line",
    ["../evil = demo:main", "a/b = demo:main", "a\\b = demo:main", ".. = demo:main", ".wh.x = demo:main"]
    + ["x = demo", "x = demo:", "x = :main", "x = os;evil:main", "x = demo:main();evil", "x = demo.1:main"],
)
def test_bad_entry_points(tmp_path: Path, line: str) -> None:
    with pytest.raises(RefusedWheel, match=r"demo-1\.0-py3-none-any\.whl.*entry_points\.txt"):
        opened(make_wheel(tmp_path, entry_points=f"[console_scripts]\n{line}\n"))


def test_entry_points_that_are_no_ini_file(tmp_path: Path) -> None:
    with pytest.raises(RefusedWheel, match="can't be read"):
        opened(make_wheel(tmp_path, entry_points="no section\n"))


def test_modes_are_two(tmp_path: Path) -> None:
    modes = {
        "a": stat.S_IFREG | 0o755,
        "b": stat.S_IFREG | 0o700,
        "c": stat.S_IFREG | 0o6644,
        "d": stat.S_IFREG | 0o666,
        "e": 0o755,
        "f": 0,
        "g": stat.S_IFREG | 0o4755,
    }
    files = installed(make_wheel(tmp_path, files=dict.fromkeys(modes, "1"), modes=modes))
    assert {name: files[f"{SITE}/{name}"][0] for name in modes} == {
        **dict.fromkeys("abeg", 0o755),
        **dict.fromkeys("cdf", 0o644),
    }


def quoted(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [('"' + path.replace('"', '""') + '"', hashed, size) for path, hashed, size in found]


def test_record_lists_what_is_installed(tmp_path: Path) -> None:
    """Only the RECORD at the top counts: ray and setuptools vendor others."""
    odd = 'demo/with, comma and "quotes".txt'
    nested = "demo/_vendor/other-1.0.dist-info/RECORD"
    made = make_wheel(
        tmp_path, files={"demo/__init__.py": "1", odd: "2", nested: "nested,sha256=wrong,1\n"}, record=quoted
    )
    code = f"{SITE}/demo/__pycache__/x.pyc"
    with opened(made) as wheel:
        paths = {entry.path for entry in entries_of(wheel, {code: b"code"})}
        listed = rows(wheel.record([code]))
    assert listed["demo/__pycache__/x.pyc"] == ("", "")
    assert listed["demo-1.0.dist-info/RECORD"] == ("", "")
    assert listed[odd] == (record_hash(b"2"), "1")
    assert nested in listed
    assert {f"{SITE}/{path}" for path in listed} == paths


def test_two_dist_infos(tmp_path: Path) -> None:
    with pytest.raises(RefusedWheel, match="2 dist-info folders"):
        opened(make_wheel(tmp_path, files={"vendored-1.dist-info/RECORD": "3"}))


def unpack(files: dict[str, tuple[int, bytes]], root: Path) -> Path:
    for path, (mode, content) in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith(b"-> "):
            target.symlink_to(content[3:].decode())
        else:
            target.write_bytes(content)
            target.chmod(mode)
    return root / SITE


def test_importlib_metadata_reads_it(tmp_path: Path) -> None:
    made = make_wheel(
        tmp_path,
        files={"demo/__init__.py": "", "demo-1.0.data/scripts/s": "#!python\n", "demo-1.0.data/headers/h.h": ""},
        entry_points="[console_scripts]\nrun = demo:main\n",
    )
    site = unpack(installed(made), tmp_path / "root")
    (found,) = importlib.metadata.distributions(path=[str(site)])
    assert (found.metadata["Name"], found.version, found.read_text("INSTALLER")) == ("demo", "1.0", "slipway\n")
    for file in found.files or []:
        content = Path(str(file.locate())).read_bytes()
        if file.hash is not None:
            assert record_hash(content) == f"{file.hash.mode}={file.hash.value}"
            assert file.size == len(content)
    everything = {path.resolve() for path in (tmp_path / "root").rglob("*") if path.is_file()}
    assert {Path(str(file.locate())).resolve() for file in found.files or []} == everything


def change(path: str, hashed: str | None = None, size: str | None = None) -> object:
    def changed(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
        return [
            (name, old if hashed is None else hashed, count if size is None else size)
            if name == path
            else (name, old, count)
            for name, old, count in found
        ]

    return changed


def drop(path: str) -> object:
    return lambda found: [row for row in found if row[0] != path]


MISMATCHES = {
    "hash": change("demo/__init__.py", record_hash(b"other")),
    "size": change("demo/__init__.py", size="7"),
    "not listed": drop("demo/__init__.py"),
    "no hash": change("demo/__init__.py", ""),
    "not there": lambda found: [*found, ("demo/ghost.py", record_hash(b""), "0")],
}


@pytest.mark.parametrize("kind", MISMATCHES)
def test_mismatch_stops_the_build(tmp_path: Path, kind: str) -> None:
    made = make_wheel(tmp_path, record=MISMATCHES[kind])
    with pytest.raises(RefusedWheel) as caught:
        installed(made)
    text = str(caught.value)
    assert "demo-1.0-py3-none-any.whl" in text
    assert ("ghost.py" if kind == "not there" else "demo/__init__.py") in text
    assert made[0].sha256 in text  # what to write into versions.toml


@pytest.mark.parametrize("kind", MISMATCHES)
def test_excused_mismatch_states_the_real_hash(tmp_path: Path, kind: str) -> None:
    made = make_wheel(tmp_path, record=MISMATCHES[kind])
    files = installed(made, excuse="its maker strips libraries after packing")
    listed = rows(files[f"{INFO}/RECORD"][1])
    assert listed["demo/__init__.py"] == (record_hash(b"x = 1\n"), "6")
    assert "demo/ghost.py" not in listed
    with opened(made, excuse="reason") as wheel:
        assert wheel.excused == ([] if kind == "not there" else ["demo/__init__.py"])


def test_missing_size_is_filled_in(tmp_path: Path) -> None:
    files = installed(make_wheel(tmp_path, record=change("demo/__init__.py", size="")))
    assert rows(files[f"{INFO}/RECORD"][1])["demo/__init__.py"] == (record_hash(b"x = 1\n"), "6")


def test_other_hashes(tmp_path: Path) -> None:
    long = record.spell("sha512", hashlib.sha512(b"x = 1\n").digest())
    assert installed(make_wheel(tmp_path, record=change("demo/__init__.py", long)))
    with pytest.raises(RefusedWheel, match="sha512"):
        installed(make_wheel(tmp_path, record=change("demo/__init__.py", record.spell("sha512", bytes(64)))))


@pytest.mark.parametrize(
    ("hashed", "word"),
    [("md5=1B2M2Y8AsgTpgAmY7PhCfg", "md5"), ("sha1=x", "sha1"), ("sha256=???", "base64"), ("sha256=", "base64")]
    + [("sha256", "base64"), ("sha256=" + "A" * 42, "base64"), ("sha256=" + "A" * 44, "base64"), ("x", "not one of")],
)
def test_malformed_hashes(tmp_path: Path, hashed: str, word: str) -> None:
    with pytest.raises(RefusedWheel, match=word):
        opened(make_wheel(tmp_path, record=change("demo/__init__.py", hashed)))


@pytest.mark.parametrize("extra", [("a", "b"), ("a",), ("a", "b", "c", "d"), ("demo/__init__.py", "", "-1")])
def test_malformed_rows(tmp_path: Path, extra: tuple[str, ...]) -> None:
    with pytest.raises(RefusedWheel, match=r"RECORD'.*line"):
        opened(make_wheel(tmp_path, record=lambda found: [*found, extra]))


def test_contradicting_rows(tmp_path: Path) -> None:
    with pytest.raises(RefusedWheel, match="another hash"):
        opened(make_wheel(tmp_path, record=lambda found: [*found, ("demo/__init__.py", record_hash(b""), "0")]))


@pytest.mark.parametrize("name", ["RECORD", "WHEEL", "METADATA"])
def test_missing_dist_info_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(RefusedWheel, match=f"no demo-1.0.dist-info/{name}"):
        opened(make_wheel(tmp_path, leave_out=(name,)))


@pytest.mark.parametrize("version", ["2.0", "", "x", "0.9"])
def test_other_wheel_formats(tmp_path: Path, version: str) -> None:
    with pytest.raises(RefusedWheel, match="wheel format"):
        opened(make_wheel(tmp_path, wheel=f"Wheel-Version: {version}\n"))
    assert opened(make_wheel(tmp_path, wheel="Wheel-Version: 1.9\n"))


@pytest.mark.parametrize(
    "changes",
    [
        {"dist_info": "other-1.0.dist-info"},
        {"dist_info": "demo-1.1.dist-info"},
        {"dist_info": "demo.dist-info"},
        {"metadata": "Name: other\nVersion: 1.0\n"},
        {"metadata": "Name: demo\nVersion: 2\n"},
        {"metadata": "Name: demo\n"},
    ],
)
def test_names_that_disagree(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(RefusedWheel, match="file name"):
        opened(make_wheel(tmp_path, **changes))


def test_spelling_of_names_does_not_matter(tmp_path: Path) -> None:
    spec = Spec(
        name="Demo.Pkg",
        version="1.0",
        file="demo_pkg-1.0.0-py3-none-any.whl",
        dist_info="Demo_Pkg-1.0.dist-info",
        files={"Demo_Pkg-1.0.data/data/x": "1"},
    )
    assert "opt/venv/x" in installed(make_wheel(tmp_path, spec))


@pytest.mark.parametrize("file", ["demo-1.0.tar.gz", "demo-1.0.zip"])
def test_sdist(tmp_path: Path, file: str) -> None:
    with pytest.raises(UsageError, match="source distribution"):
        opened(make_wheel(tmp_path, file=file))


@pytest.mark.parametrize("file", ["demo.whl", "demo-1.0.whl", "demo-x-py3-none-any.whl", "demo-1.0.rpm", "a/../b.whl"])
def test_what_is_no_wheels_name(tmp_path: Path, file: str) -> None:
    wheel, path = make_wheel(tmp_path)
    with pytest.raises(UsageError):
        opened((Wheel("demo", "1.0", file, wheel.size, wheel.sha256), path))


@pytest.mark.parametrize(
    "tag",
    ["cp312-cp312-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_39_x86_64", "cp311-cp311-musllinux_1_1_x86_64"]
    + ["cp311-cp311-manylinux2014_aarch64", "cp311-cp311-win_amd64", "py2-none-any", "cp312-abi3-manylinux1_x86_64"],
)
def test_tags_that_do_not_fit(tmp_path: Path, tag: str) -> None:
    with pytest.raises(UsageError, match=f"does not fit.*{tag}"):
        opened(make_wheel(tmp_path, tag=tag))


@pytest.mark.parametrize(
    "tag",
    ["cp311-cp311-manylinux2014_x86_64.manylinux_2_39_x86_64", "cp38-abi3-manylinux_2_28_x86_64", "py2.py3-none-any"],
)
def test_tags_that_fit(tmp_path: Path, tag: str) -> None:
    assert opened(make_wheel(tmp_path, tag=tag))


@pytest.mark.parametrize("name,version", [("other", "1.0"), ("demo", "1.1"), ("demo", "nonsense")])
def test_file_that_is_not_the_locked_package(tmp_path: Path, name: str, version: str) -> None:
    wheel, path = make_wheel(tmp_path)
    with pytest.raises(UsageError, match="is not"):
        opened((Wheel(name, version, wheel.file, wheel.size, wheel.sha256), path))


@pytest.mark.parametrize(
    "member",
    [
        "demo-1.0.data/stray",
        "demo-1.0.data/unknown/x",
        "other-1.0.data/data/x",
        "demo-2.0.data/data/x",
        "demo-1.0.data/purelib/other-1.0.dist-info/METADATA",
        "demo-1.0.data/purelib/demo-1.0.dist-info/RECORD",
        "demo-1.0.data/data/lib/python3.11/site-packages/other-1.0.dist-info/METADATA",
        "demo-1.0.data",
    ],
)
def test_members_without_a_place(tmp_path: Path, member: str) -> None:
    with pytest.raises(RefusedWheel, match=member):
        opened(make_wheel(tmp_path, files={member: "1"}))


def test_two_members_for_one_place(tmp_path: Path) -> None:
    files = {"demo/x.py": "1", "demo-1.0.data/purelib/demo/x.py": "2"}
    with pytest.raises(RefusedWheel, match="two of its files"):
        opened(make_wheel(tmp_path, files=files))


def link(target: str, **more: str) -> Spec:
    files = {"demo/lib.so.1": "code", "demo/lib.so": target, **more}
    return Spec(files=files, modes={"demo/lib.so": stat.S_IFLNK | 0o777})


def test_symlink_within_the_wheel(tmp_path: Path) -> None:
    files = installed(make_wheel(tmp_path, link("lib.so.1")))
    assert files[f"{SITE}/demo/lib.so"] == (0o777, b"-> lib.so.1")
    assert rows(files[f"{INFO}/RECORD"][1])["demo/lib.so"] == (record_hash(b"code"), "4")
    site = unpack(files, tmp_path / "root")
    assert (site / "demo/lib.so").read_text() == "code"


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../../../../../../etc/passwd", "..", "lib.so", "ghost", "../other/x", "", "/opt/venv/bin/python"]
    + [".", "../demo", "lib.so.1\0", "a" * 5000],
)
def test_symlinks_out_of_the_wheel(tmp_path: Path, target: str) -> None:
    with pytest.raises(RefusedWheel, match=r"'demo/lib\.so'.*symlink"):
        opened(make_wheel(tmp_path, link(target)))


def test_symlink_in_place_of_a_folder(tmp_path: Path) -> None:
    """A file below a symlink would be written through it."""
    made = make_wheel(tmp_path, link("lib.so.1", **{"demo/lib.so/x": "1"}))
    with opened(made) as wheel, pytest.raises(BuildFailed, match="symlink"):
        complete(entries_of(wheel))


def test_a_failed_opening_leaves_no_descriptor(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, record=MISMATCHES["size"])
    before = set(Path("/proc/self/fd").iterdir())
    for _ in range(3):
        with pytest.raises(RefusedWheel):
            opened(made)
    assert len(set(Path("/proc/self/fd").iterdir())) <= len(before)


def names(files: Iterable[File]) -> list[str]:
    return [file.path for file in files]


def test_files_are_sorted(tmp_path: Path) -> None:
    files = {"b.py": "", "a/z.py": "", "a.py": "", "demo-1.0.data/data/x": ""}
    with opened(make_wheel(tmp_path, files=files)) as wheel:
        assert names(wheel.files) == sorted(names(wheel.files))
