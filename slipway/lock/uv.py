"""Asks uv which wheels go together. The only module that runs uv.

uv reads its own configuration and UV_… variables, and not pip's; both would make the lock depend on the machine.
So it is run with an environment by allow-list and told everything by argument.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from slipway.errors import MissingError
from slipway.host import process
from slipway.lock.places import Places


class NoSolution(Exception):
    """uv's word that the requirements can't go together, or that something isn't there. `text` is its explanation."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    @property
    def missing(self) -> bool:
        """Whether another index might help."""
        marks = ("was not found", "is no version of", "has no wheels", "no usable wheels")
        return any(mark in self.text for mark in marks)


class Unreachable(Exception):
    """uv couldn't ask an index. `text` is its explanation."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def uv_path() -> Path:
    """uv beside the running Python, else on PATH. MissingError when there is none."""
    beside = Path(sys.executable).parent / "uv"
    found = beside if beside.is_file() else process.which("uv")
    if found is None:
        raise MissingError("uv is not there", remedy=f"`{sys.executable} -m pip install uv`, or run `python3 build.py`")
    return found


def compile_pylock(
    folder: Path,
    requirements: Sequence[str],
    exclude: Sequence[str],
    preferences: str,
    *,
    python: str,
    platform: str,
    places: Places,
    cert: str = "",
    insecure: Sequence[str] = (),
) -> str:
    """Resolves and gives the text of a pylock.toml (PEP 751), whose addresses are the machine's.

    preferences: text of a pylock.toml whose versions are kept where they can be, "" for none
    cert:        file of the certificate authorities to trust, "" for uv's own
    insecure:    hosts whose certificates needn't be valid (pip's trusted-host)

    Raises NoSolution or Unreachable.
    """
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in requirements))
    (folder / "exclude.txt").write_text("".join(f"{name}\n" for name in exclude))
    output = folder / "pylock.toml"
    output.unlink(missing_ok=True)
    if preferences:
        output.write_text(preferences)
    command = [str(uv_path()), "pip", "compile", "--quiet", "--no-config", "--no-build", "--no-header", "--no-annotate"]
    command += ["--python-version", python, "--python-platform", platform, "--excludes", "exclude.txt"]
    command += [*places.arguments(), "--format", "pylock.toml", "--output-file", "pylock.toml", "in.txt"]
    for host in insecure:
        command += ["--allow-insecure-host", host]
    done = process.run(
        command, cwd=folder, pass_names=("UV_CACHE_DIR",), env={"SSL_CERT_FILE": cert} if cert else None, check=False
    )
    if done.code == 1:
        raise NoSolution(done.err.strip())
    if done.code != 0:
        raise Unreachable(done.err.strip())
    return output.read_text()
