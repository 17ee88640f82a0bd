"""Where an image goes.

A registry is named by --registry, else SLIPWAY_REGISTRY, else `registry` of versions.toml's [push] table:
`[http://|https://]HOST[:PORT][/FOLDER…]`. The repository is FOLDER…/slipway; --repository names another one instead of
`slipway`. All variants and releases go to one repository and are told apart by their tags.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from slipway.errors import UsageError
from slipway.image.definition import REPOSITORY
from slipway.registry.reference import Reference, parse_reference
from slipway.sources.http import Http
from slipway.sources.retry import PUSH_POLICY
from slipway.sources.settings import HttpSettings

VARIABLE = "SLIPWAY_REGISTRY"
CERTIFICATES = Path("/etc/docker/certs.d")


def unset(given: str | None, environ: Mapping[str, str] | None = None) -> bool:
    """Whether neither option nor environment names a registry, so that versions.toml has to be read."""
    return not (given or (os.environ if environ is None else environ).get(VARIABLE))


def target(
    given: str | None, repository: str | None, environ: Mapping[str, str] | None = None, pinned: str = ""
) -> Reference:
    """The repository to push to, without a tag. Raises UsageError where no registry is named, or where it is none."""
    environ = os.environ if environ is None else environ
    registry = given or environ.get(VARIABLE, "") or pinned
    if not registry:
        raise UsageError(
            "no registry is named to push to",
            remedy=f"--registry HOST[/FOLDER], or set {VARIABLE}, or registry in versions.toml's [push] table",
        )
    folders = registry.partition("://")[2] or registry
    if "@" in folders or ":" in folders.partition("/")[2]:
        raise UsageError(
            f"{registry!r} names more than a registry and folders in it",
            remedy="name HOST[:PORT][/FOLDER]: the repository below it is `slipway` (--repository NAME), the tags are "
            "made of the versions (--tag adds one)",
        )
    try:
        return parse_reference(f"{registry.rstrip('/')}/{repository or REPOSITORY}")
    except UsageError as error:
        raise UsageError(
            error.what,
            where=f"registry {registry!r}, repository {repository or REPOSITORY!r}",
            remedy="--registry HOST[:PORT][/FOLDER] with the host written out, folders and --repository NAME in lower "
            "case, e.g. --registry registry.example.com/team",
        ) from None


def registry_http(reference: Reference, notify: Callable[[str], None] | None = None) -> Http:
    """How a registry is reached for a push: patiently, with the authorities that docker knows for it
    (/etc/docker/certs.d/HOST/*.crt) besides the system's and SSL_CERT_FILE."""
    folder = CERTIFICATES / reference.host
    settings = HttpSettings(ca_files=tuple(sorted(folder.glob("*.crt"))) if folder.is_dir() else ())
    return Http(settings, PUSH_POLICY, notify=notify)
