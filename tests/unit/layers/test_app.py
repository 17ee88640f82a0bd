"""serve_app's wheel: a function of the source's content."""

import io
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from slipway.cli.common import ROOT
from slipway.errors import BuildFailed
from slipway.layers.app import app_wheel, as_wheel


def copy(target: Path, umask: int) -> Path:
    before = os.umask(umask)
    try:
        shutil.copytree(ROOT / "serve_app", target, copy_function=shutil.copyfile)
    finally:
        os.umask(before)
    return target


def test_same_bytes_from_two_checkouts(tmp_path: Path) -> None:
    first = app_wheel(copy(tmp_path / "a", 0o022))
    second = app_wheel(copy(tmp_path / "elsewhere/b", 0o077))
    assert first == second


def test_the_wheel_holds_the_program_and_its_metadata(tmp_path: Path) -> None:
    file, content = app_wheel(ROOT / "serve_app")
    wheel = as_wheel(file, content)
    assert wheel.name == "serve-app" and wheel.size == len(content) and wheel.made
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "serve_app/__init__.py" in names
    assert f"serve_app-{wheel.version}.dist-info/RECORD" in names


def test_a_changed_line_changes_the_wheel(tmp_path: Path) -> None:
    project = copy(tmp_path / "a", 0o022)
    before = app_wheel(project)
    with (project / "src/serve_app/__init__.py").open("a") as source:
        source.write("# more\n")
    assert app_wheel(project) != before


def test_a_broken_project_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(BuildFailed) as error:
        app_wheel(tmp_path)
    assert "pyproject.toml" in str(error.value)
