"""The EFA installer's place in a lock. Its hash is pinned; its size too, or a source of it is asked."""

from __future__ import annotations

from collections.abc import Sequence

from urllib3.exceptions import HTTPError as TransportError

from slipway.errors import MissingError
from slipway.lock.model import EfaInstaller
from slipway.pins.model import Installer, Selection
from slipway.sources.address import join, local_path, redact
from slipway.sources.http import Http
from slipway.sources.mirrors import Mirrors
from slipway.sources.outcome import NotHad

NAME = "aws-efa-installer"


def resolve_installer(
    selection: Selection, known: Sequence[EfaInstaller], mirrors: Mirrors, http: Http | None = None
) -> tuple[EfaInstaller, ...]:
    """The installer of a selection whose fabric it is, else nothing. Raises MissingError where nobody says its size.

    known: those of the lock before; the same file is taken over without asking
    """
    pin = selection.installer
    if selection.fabric != "installer" or pin is None:
        return ()
    sizes = {installer.sha256: installer.size for installer in known}
    size = pin.size or sizes.get(pin.sha256, 0) or _ask(pin, mirrors.efa or (selection.sources.efa,), http or Http())
    return (EfaInstaller(NAME, pin.version, pin.file, size, pin.sha256),)


def _ask(pin: Installer, places: Sequence[str], http: Http) -> int:
    """The size that the first place says which has the file. Whether it is the right file is seen at fetch."""
    tried = []
    for place in filter(None, places):
        path = local_path(place)
        if path is not None:
            if (path / pin.file).is_file():
                return (path / pin.file).stat().st_size
            tried.append(f"{path}: no {pin.file}")
            continue
        url = join(place, pin.file)
        tries = http.tries(url)
        try:
            while True:
                try:
                    response = http.send("HEAD", url)
                    response.close()
                    if not tries.wants_again(response):
                        break
                except TransportError as error:
                    tries.broken(error)
        except NotHad as error:
            tried.append(f"{redact(url)}: {error.reason}")
            continue
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and int(length):
            return int(length)
        tried.append(f"{redact(url)}: says no size")
    raise MissingError(
        f"the size of {pin.file} is not known",
        where=f"components.efa-installer.{pin.version} in versions.toml",
        why="\n".join(tried) or "no source of it is configured",
        remedy="write its `size` (bytes) beside its sha256, or name a folder or server that has it: --mirror efa=PLACE",
    )
