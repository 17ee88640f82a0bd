"""What an image can do, found by looking at it and never by its name, so that any image can be tested."""

from __future__ import annotations

CHECKS = {
    "apt": "command -v apt-get",
    "compiler": "command -v g++",
    "fabric": "ls /opt/amazon/efa/lib*/libfabric.so.1 2>/dev/null",
    "cuda toolkit": "command -v nvcc",
    "nixl": "python -c 'import importlib.util as u; u.find_spec(\"nixl\").origin'",
    "pip": "python -m pip --version",
    "python": "command -v python",
    "ray": "python -c 'import importlib.util as u; u.find_spec(\"ray\").origin'",
    "serve_app": "command -v serve_app",
    "torch": "python -c 'import importlib.util as u; u.find_spec(\"torch\").origin'",
    "vllm": "python -c 'import importlib.util as u; u.find_spec(\"vllm\").origin'",
}
"""Ability → shell command that succeeds where the image has it."""

ALL = frozenset(CHECKS)
ONLY_CUDA = frozenset({"cuda toolkit"})

SCRIPT = "\n".join(
    [
        "found=",
        *(f'if ( {check} ) >/dev/null 2>&1; then found="$found, \\"{name}\\""; fi' for name, check in CHECKS.items()),
        'echo "[${found#, }]"',
    ]
)
"""Prints a JSON list of what is there."""


def of(variant: str) -> frozenset[str]:
    """What an image of Slipway's own has to be able to do."""
    return ALL if variant == "cuda" else ALL - ONLY_CUDA
