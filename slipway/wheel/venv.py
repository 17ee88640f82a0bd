"""The venv itself: what `python -m venv` makes, without the packages.

pyvenv.cfg as https://docs.python.org/3/library/venv.html and PEP 405 describe it; it makes the interpreter that is
started through bin/python look for packages here.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from slipway.layers.entry import Entry, file_entry
from slipway.wheel.paths import Venv

ORIGIN = "the venv"

_ACTIVATE = """\
# . {folder}/bin/activate    (sh, bash, zsh): makes this environment the one that `python` and `pip` mean.
# Ray's runtime_env clones the environment and sources this file in the clone, after replacing the folder's name.
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
        file_entry(f"{venv.prefix}/bin/activate", _ACTIVATE.format(folder=f"/{venv.prefix}").encode(), origin=ORIGIN),
        *(
            Entry(f"{venv.prefix}/{path}", "symlink", 0o777, target=target, origin=ORIGIN)
            for path, target in links.items()
        ),
    ]
