"""The files that make /opt/venv a virtual environment, before any wheel is in it.

What `python3.11 -m venv` would write, without what names the machine it ran on: PEP 405,
https://docs.python.org/3.11/library/venv.html.
"""

from __future__ import annotations

from collections.abc import Iterable

from slipway.errors import UsageError
from slipway.layers.entry import Entry, file_entry
from slipway.lock.model import Deb
from slipway.wheel.paths import Venv

ORIGIN = "the image's venv"

_ACTIVATE = """\
# . {folder}/bin/activate    (sh, bash, zsh): makes this environment the one that `python` and `pip` mean
deactivate () {{
    PATH="$_OLD_VIRTUAL_PATH"
    export PATH
    unset VIRTUAL_ENV _OLD_VIRTUAL_PATH
    unset -f deactivate
    hash -r 2> /dev/null || true
}}
_OLD_VIRTUAL_PATH="$PATH"
VIRTUAL_ENV={folder}
PATH="$VIRTUAL_ENV/bin:$PATH"
export PATH VIRTUAL_ENV
unset PYTHONHOME
hash -r 2> /dev/null || true
"""


def venv_entries(venv: Venv, full_version: str) -> list[Entry]:
    """Entries of an empty venv. full_version: "3.11.2", of the Python it is made from."""
    folder, _, program = venv.base.rpartition("/")
    prefix = venv.prefix
    config = (
        f"home = {folder}\n"
        "include-system-site-packages = false\n"
        f"version = {full_version}\n"
        f"executable = {venv.base}\n"
        f"command = {venv.base} -m venv /{prefix}\n"
    )
    return [
        Entry(f"{prefix}/bin", "directory", 0o755, origin=ORIGIN),
        Entry(venv.site, "directory", 0o755, origin=ORIGIN),
        file_entry(f"{prefix}/pyvenv.cfg", config.encode(), origin=ORIGIN),
        file_entry(f"{prefix}/bin/activate", _ACTIVATE.format(folder=f"/{prefix}").encode(), origin=ORIGIN),
        Entry(f"{prefix}/bin/{program}", "symlink", 0o777, target=venv.base, origin=ORIGIN),
        Entry(f"{prefix}/bin/python3", "symlink", 0o777, target=program, origin=ORIGIN),
        Entry(f"{prefix}/bin/python", "symlink", 0o777, target=program, origin=ORIGIN),
        Entry(f"{prefix}/lib64", "symlink", 0o777, target="lib", origin=ORIGIN),
    ]


def reserved(venv: Venv) -> dict[str, str]:
    """Path → kind of the venv's own files: no wheel may install to one (slipway.layers.wheels.Options.reserved)."""
    return {entry.path: entry.kind for entry in venv_entries(venv, "0")}


def python_version(debs: Iterable[Deb], python: str) -> str:
    """The full version, "3.11.2", that the locked package python3.11-minimal brings. Raises UsageError without it."""
    for deb in debs:
        if deb.name == f"python{python}-minimal":
            upstream = deb.version.rpartition(":")[2].partition("-")[0]
            return upstream.partition("~")[0].partition("+")[0]
    raise UsageError(
        f"the lock holds no python{python}-minimal",
        why="the image's virtual environment is made from Debian's Python",
        remedy="name python3 in versions.toml's packages of the image, then python3 build.py lock",
    )
