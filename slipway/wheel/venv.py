"""The venv itself: what `python -m venv` makes, without the packages.

pyvenv.cfg as https://docs.python.org/3/library/venv.html and PEP 405 describe it; it makes the interpreter that is
started through bin/python look for packages here.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from slipway.layers.entry import Entry, file_entry
from slipway.wheel.paths import Venv

ORIGIN = "the venv"


def venv_entries(venv: Venv, version: str) -> list[Entry]:
    """Entries of an empty venv. version: of its Python, "3.11.2"."""
    settings = {
        "home": str(PurePosixPath(venv.base).parent),
        "include-system-site-packages": "false",
        "version": version,
        "executable": venv.base,
        "command": f"{venv.base} -m venv /{venv.prefix}",
    }
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    links = {
        "bin/python": venv.base,
        "bin/python3": "python",
        f"bin/python{venv.python}": "python",
        "lib64": "lib",
    }
    return [
        file_entry(f"{venv.prefix}/pyvenv.cfg", text.encode(), origin=ORIGIN),
        *(
            Entry(f"{venv.prefix}/{path}", "symlink", 0o777, target=target, origin=ORIGIN)
            for path, target in links.items()
        ),
    ]
