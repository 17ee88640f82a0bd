"""`--mirror KIND=URL` and SLIPWAY_MIRROR_* variables: addresses that override what pip and apt are configured with."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from slipway.errors import UsageError
from slipway.sources.address import local_path

SHORT = {"snapshot": "SLIPWAY_SNAPSHOT"}
"""A second, shorter name of a variable."""


@dataclass(frozen=True)
class Mirrors:
    """Addresses by kind, in the order in which they are tried; empty: nothing overrides this kind.

    wheels:   a folder, a simple index (PEP 503), or a folder of wheels on a server
    pytorch:  a simple index, asked for wheels with a local version (`2.13.0+cpu`) that the others don't have
    debian:   root of a Debian archive, the folder that holds pool/ and dists/
    debian_security: root of the archive with Debian's security updates (`debian-security=URL`); where it is not named,
              it is looked for beside a `…/debian` and in the same place
    snapshot: archive of old packages (slipway.sources.snapshot says which forms)
    efa:      a folder, here or on a server, that holds the EFA installer's tarball under its name
    """

    wheels: tuple[str, ...] = ()
    pytorch: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    debian_security: tuple[str, ...] = ()
    snapshot: tuple[str, ...] = ()
    efa: tuple[str, ...] = ()


KINDS = tuple(field.name.replace("_", "-") for field in fields(Mirrors))


def parse_mirrors(options: Sequence[str], environ: Mapping[str, str]) -> Mirrors:
    """Options replace the variables of the same kind. Raises UsageError for an unknown kind or a useless address."""
    found: dict[str, list[str]] = {}
    for option in options:
        kind, equals, address = option.partition("=")
        kind, address = kind.strip(), address.strip()
        if not equals or kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, n=1)
            wrong = f"{kind!r} is no kind of source" if equals else "no address in it"
            raise UsageError(
                f"--mirror {option}: {wrong}",
                remedy=f"write --mirror {near[0] if near else 'KIND'}=ADDRESS; kinds are {', '.join(KINDS)}",
            )
        found.setdefault(kind, []).append(_address(f"--mirror {option}", address))
    for kind in KINDS:
        for variable in (f"SLIPWAY_MIRROR_{kind.upper().replace('-', '_')}", SHORT.get(kind, "")):
            if kind not in found and environ.get(variable, "").split():
                found[kind] = [_address(variable, address) for address in environ[variable].split()]
    return Mirrors(**{kind.replace("-", "_"): tuple(addresses) for kind, addresses in found.items()})


def _address(where: str, address: str) -> str:
    path = local_path(address) if address else None
    if path is not None and path.is_dir():
        return str(path.absolute())
    if path is None and address.startswith(("http://", "https://")):
        return address
    raise UsageError(
        f"{where}: {address!r} is neither a folder of this machine nor an http or https address",
        remedy="name a folder that is there, or an address with http:// or https:// in front",
    )
