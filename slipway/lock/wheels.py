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

from slipway.errors import MissingError, SlipwayError, UsageError
from slipway.lock.alias import alias_file, alias_wheel, locked_alias
from slipway.lock.impossible import impossible
from slipway.lock.model import Wheel
from slipway.lock.tags import best, image_tags, uv_platform
from slipway.lock.uv import NoSolution, Places, Unreachable, compile_pylock
from slipway.pins.model import Selection
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
    selection: Selection, pip: PipConfig, mirrors: Mapping[str, str], keep: Sequence[Wheel] = ()
) -> tuple[Wheel, ...]:
    """The wheels of an image, by name. `keep` are wheels whose versions stay where the pins allow it.

    mirrors: source kind ("wheels", "pytorch") → address that replaces what pip and the pins say.
    Raises UsageError when the pins can't go together, MissingError when no index answers.
    """
    with tempfile.TemporaryDirectory(prefix="slipway-lock-") as name:
        folder = Path(name)
        aliases = folder / "aliases"
        aliases.mkdir()
        for alias in selection.aliases:
            (aliases / alias_file(alias)).write_bytes(alias_wheel(alias))
        text = _first_that_answers(folder, selection, pip, mirrors, aliases, _preferences(keep))
    made = {alias.name: locked_alias(alias) for alias in selection.aliases}
    found = (made.get(name) or _wheel(name, version, of, selection, pip) for name, version, of in read_pylock(text))
    return tuple(sorted(found, key=lambda wheel: wheel.name))


def _first_that_answers(
    folder: Path, selection: Selection, pip: PipConfig, mirrors: Mapping[str, str], aliases: Path, preferences: str
) -> str:
    """Asks place after place until one has all. The main index comes alone first, so that locks agree between machines.

    pip's extra indexes are often part copies: where the main one can answer alone, they would only decide which
    of several equal files is seen.
    """
    requirements = [str(requirement) for requirement in selection.wheels]
    requirements += [f"{alias.name}=={alias.version}" for alias in selection.aliases]
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
                places=Places(places.index, places.more, (*places.find_links, str(aliases)), places.no_index),
                cert=pip.cert,
            )
        except (NoSolution, Unreachable) as failure:
            failures.append(failure)
            if isinstance(failure, NoSolution) and not failure.missing:
                break
    said = [failure for failure in failures if isinstance(failure, NoSolution)]
    if said:
        raise impossible(selection, said[-1].text)
    raise MissingError(
        "no package index answers",
        where=f"pins of {selection.label}",
        why=failures[-1].text.splitlines()[0] if failures else None,
        remedy="see that pip can download packages here, or name an index with --mirror wheels=URL",
    )


def places_to_ask(selection: Selection, pip: PipConfig, mirrors: Mapping[str, str]) -> Iterator[Places]:
    """The places to look in, one set after the other: each is asked when the one before lacks something."""
    pinned = selection.sources.wheels
    index = mirrors.get("wheels") or (pip.index if pinned == "pip" else pinned)
    extra = () if mirrors.get("wheels") else pip.extra_indexes
    no_index = not index
    wants_pytorch = "pytorch" in selection.wheel_sources
    # Folders of wheels hold what no index has, such as PyTorch's CPU builds. Where those aren't wanted a folder would
    # only add versions (2.13.0+cpu satisfies a pin on 2.13.0), so it is asked where it is all there is.
    links = pip.find_links if wants_pytorch or no_index else ()
    pytorch = mirrors.get("pytorch") or (selection.sources.pytorch if wants_pytorch else "")
    own = (pytorch,) if pytorch and (mirrors.get("pytorch") or not links) else ()
    yield Places(index, own, links, no_index)
    if extra and not no_index:
        yield Places(index, (*own, *extra), links)
    if wants_pytorch and pytorch and not own and not no_index:
        yield Places(index, (pytorch, *extra), links)


def read_pylock(text: str) -> Iterator[tuple[str, str, list[Found]]]:
    """Name, version and wheels of every package of a pylock.toml (PEP 751). What isn't a wheel raises UsageError."""
    for package in tomllib.loads(text).get("packages", []):
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
        raise SlipwayError(f"can't find out the size of {found.file}: {error}") from error
