"""From pins to the exact wheels: resolve, choose one file per distribution, note its hash, forget its address."""

from __future__ import annotations

import ssl
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name

from slipway.errors import MissingError, UsageError
from slipway.lock.alias import alias_file, alias_wheel, locked_alias
from slipway.lock.impossible import explain, requirements_of
from slipway.lock.model import Wheel
from slipway.lock.places import Places, places_to_ask
from slipway.lock.tags import best, image_tags, uv_platform
from slipway.lock.uv import NoSolution, Unreachable, compile_pylock
from slipway.pins.model import Selection
from slipway.sources.mirrors import Mirrors
from slipway.sources.pip import PipConfig

_HEAD_TIMEOUT = 60  # seconds


@dataclass(frozen=True)
class Found:
    """A wheel as an index offers it. size is 0 where the index doesn't say."""

    file: str
    url: str
    sha256: str
    size: int


def resolve_wheels(
    selection: Selection, pip: PipConfig, mirrors: Mirrors, keep: Sequence[Wheel] = ()
) -> tuple[Wheel, ...]:
    """The wheels of an image, by name. `keep` are wheels whose versions stay where the pins allow it.

    Raises UsageError when the pins can't go together, MissingError when no index answers.
    """
    with tempfile.TemporaryDirectory(prefix="slipway-lock-") as name:
        folder = Path(name)
        (folder / "aliases").mkdir()
        for alias in selection.aliases:
            (folder / "aliases" / alias_file(alias)).write_bytes(alias_wheel(alias))

        def ask(requirements: Sequence[str]) -> str:
            return _ask(folder, requirements, selection, pip, mirrors, _preferences(keep))

        try:
            text = ask(requirements_of(selection))
        except NoSolution as failure:
            raise explain(selection, failure, lambda names: _versions(ask(names))) from failure
    made = {alias.name: locked_alias(alias) for alias in selection.aliases}
    found = (made.get(name) or _wheel(name, version, of, selection, pip) for name, version, of in read_pylock(text))
    return tuple(sorted(found, key=lambda wheel: wheel.name))


def _ask(
    folder: Path, requirements: Sequence[str], selection: Selection, pip: PipConfig, mirrors: Mirrors, preferences: str
) -> str:
    """Asks place after place until one has all. Raises NoSolution, or MissingError when none answers."""
    failures: list[NoSolution | Unreachable] = []
    for places in places_to_ask(selection, pip, mirrors):
        try:
            return compile_pylock(
                folder,
                requirements,
                sorted(selection.exclude),
                preferences,
                python=selection.python,
                platform=uv_platform(selection.glibc, selection.arch),
                places=Places(places.indexes, (*places.find_links, str(folder / "aliases"))),
                cert=pip.cert,
                insecure=sorted(pip.trusted_hosts),
            )
        except (NoSolution, Unreachable) as failure:
            failures.append(failure)
            if isinstance(failure, NoSolution) and not failure.missing:
                break
    for told in reversed(failures):
        if isinstance(told, NoSolution):
            raise told
    raise MissingError(
        "no package index answers",
        where=f"pins of {selection.label}",
        why=failures[-1].text.splitlines()[0],
        remedy="see that pip can download packages here, or name an index with --mirror wheels=URL",
    )


def _versions(pylock: str) -> dict[str, str]:
    return {canonicalize_name(package["name"]): package.get("version", "") for package in _packages(pylock)}


def _packages(pylock: str) -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = tomllib.loads(pylock).get("packages", [])
    return packages


def read_pylock(text: str) -> Iterator[tuple[str, str, list[Found]]]:
    """Name, version and wheels of every package of a pylock.toml (PEP 751). What isn't a wheel raises UsageError."""
    for package in _packages(text):
        name = canonicalize_name(package["name"])
        wheels = [_found(entry) for entry in package.get("wheels", [])]
        if not wheels or "version" not in package:
            raise UsageError(
                f"{name} {package.get('version', '')}: there is no wheel, only a source",
                why="an image is assembled from wheels: nothing is built while it is made",
                remedy="pin a version that has a wheel, or exclude it in versions.toml with a reason",
            )
        yield name, package["version"], wheels


def _found(entry: Mapping[str, Any]) -> Found:
    url = entry.get("url") or Path(entry["path"]).resolve().as_uri()
    file = entry.get("name") or unquote(urlsplit(url).path.rpartition("/")[2])
    return Found(file, url, entry.get("hashes", {}).get("sha256", ""), entry.get("size", 0))


def _preferences(keep: Sequence[Wheel]) -> str:
    if not keep:
        return ""
    head = 'lock-version = "1.0"\ncreated-by = "slipway"\n'
    return head + "".join(f'\n[[packages]]\nname = "{wheel.name}"\nversion = "{wheel.version}"\n' for wheel in keep)


def _wheel(name: str, version: str, files: Sequence[Found], selection: Selection, pip: PipConfig) -> Wheel:
    tags = image_tags(selection.python, selection.glibc, selection.arch)
    try:
        chosen = best(((found.file, found) for found in files), tags)
    except InvalidWheelFilename as error:
        raise UsageError(f"{name} {version}: {error}") from error
    if chosen is None:
        raise UsageError(
            f"{name} {version}: no wheel for Python {selection.python} and glibc {selection.glibc} on {selection.arch}",
            where=", ".join(sorted(found.file for found in files)),
            remedy="pin another version of it, or of what asks for it",
        )
    found = chosen[1]
    if not found.sha256:
        remedy = "take an index that does (PEP 503), with --mirror wheels=URL"
        raise UsageError(f"{name} {version}: its index gives no sha256", where=found.file, remedy=remedy)
    return Wheel(name, version, found.file, found.size or _size(found, pip), found.sha256)


def _size(found: Found, pip: PipConfig) -> int:
    """In bytes: folders of wheels and plain indexes don't list it."""
    parts = urlsplit(found.url)
    try:
        if parts.scheme == "file":
            return Path(unquote(parts.path)).stat().st_size
        context = ssl.create_default_context(cafile=pip.cert or None)
        request = urllib.request.Request(found.url, method="HEAD")  # noqa: S310
        with urllib.request.urlopen(request, timeout=_HEAD_TIMEOUT, context=context) as answer:  # noqa: S310
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError) as error:
        raise MissingError(f"can't find out the size of {found.file}: {error}") from error
