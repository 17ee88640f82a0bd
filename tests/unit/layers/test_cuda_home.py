"""Links that make the wheels' CUDA toolkit found."""

import posixpath

import pytest

from slipway.errors import UsageError
from slipway.layers.cuda_home import HOME, entries

SITE = "opt/venv/lib/python3.11/site-packages/nvidia/cu13"
PATHS = [
    f"{SITE}/bin/nvcc",
    f"{SITE}/include/cuda.h",
    f"{SITE}/nvvm/bin/cicc",
    f"{SITE}/lib/libcudart.so.13",
    f"{SITE}/lib/libcudadevrt.a",
    f"{SITE}/lib/libnvrtc-builtins.so.13.0",
    f"{SITE}/lib/libcheckpoint.so",
]


def test_folders_and_libraries_are_found_under_the_names_that_compilers_and_linkers_use() -> None:
    links = {
        entry.path: posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), entry.target))
        for entry in entries(PATHS)
    }
    assert links == {
        f"{HOME}/bin": f"{SITE}/bin",
        f"{HOME}/include": f"{SITE}/include",
        f"{HOME}/nvvm": f"{SITE}/nvvm",
        f"{HOME}/lib64/libcudart.so": f"{SITE}/lib/libcudart.so.13",
        f"{HOME}/lib64/libcudart.so.13": f"{SITE}/lib/libcudart.so.13",
        f"{HOME}/lib64/libcudadevrt.a": f"{SITE}/lib/libcudadevrt.a",
        f"{HOME}/lib64/libcheckpoint.so": f"{SITE}/lib/libcheckpoint.so",
    }


def test_without_a_compiler_there_is_nothing() -> None:
    assert entries(path for path in PATHS if not path.endswith("nvcc")) == []


def test_two_toolkits_are_refused() -> None:
    with pytest.raises(UsageError, match="two CUDA toolkits"):
        entries([*PATHS, PATHS[0].replace("cu13", "cu12")])
