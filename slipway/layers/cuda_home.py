"""/usr/local/cuda: where FlashInfer, DeepGEMM, tilelang and torch look for CUDA, made of links into the wheels.

NVIDIA's wheels put compiler, headers and libraries into site-packages/nvidia/cu13, and the libraries without the names
that a linker looks for (libcudart.so.13 without libcudart.so). CUDA comes once, so these are links and no copies:

    /usr/local/cuda/{bin,include,nvvm}  folders of the wheels          /usr/local/cuda/lib64  a link for each library
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from slipway.errors import UsageError
from slipway.layers.entry import Entry

HOME = "usr/local/cuda"
"""What the image's CUDA_HOME names."""

_COMPILER = re.compile(r"(?P<toolkit>.*/nvidia/cu\d+)/bin/nvcc")
_LIBRARY = re.compile(r"lib[A-Za-z0-9_]+\.(?:a|so(?:\.[0-9.]+)?)")
NAME = "cuda-home"
"""The layer's name."""

_FOLDERS = ("bin", "include", "nvvm")
_ORIGIN = "cuda home"


def entries(paths: Iterable[str]) -> list[Entry]:
    """The links, for the paths that an image's wheels install; none where no wheel brings nvcc.

    Raises UsageError where two toolkits are there.
    """
    paths = sorted(paths)
    homes = sorted({match["toolkit"] for path in paths if (match := _COMPILER.fullmatch(path))})
    if not homes:
        return []
    if len(homes) > 1:
        raise UsageError(
            f"two CUDA toolkits are among the wheels: {', '.join(homes)}",
            why="code compiled at run time would be linked with one and run with the other",
            remedy="exclude one of them in versions.toml",
        )
    (home,) = homes
    made = [
        _link(f"{HOME}/{folder}", f"{home}/{folder}")
        for folder in _FOLDERS
        if any(path.startswith(f"{home}/{folder}/") for path in paths)
    ]
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder == f"{home}/lib" and _LIBRARY.fullmatch(name):
            plain = name.partition(".so.")[0] + ".so" if ".so." in name else name
            made += [_link(f"{HOME}/lib64/{each}", path) for each in dict.fromkeys((name, plain))]
    return sorted({entry.path: entry for entry in made}.values(), key=lambda entry: entry.path)


def _link(path: str, target: str) -> Entry:
    return Entry(path, "symlink", 0o777, target=posixpath.relpath(target, posixpath.dirname(path)), origin=_ORIGIN)
