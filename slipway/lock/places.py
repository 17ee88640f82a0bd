"""Where uv is to look for wheels: --mirror, the pins, and what pip is configured with on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slipway.pins.model import Selection
from slipway.sources.address import local_path
from slipway.sources.mirrors import Mirrors
from slipway.sources.pip import PipConfig


@dataclass(frozen=True)
class Places:
    """Where uv looks in one run. Of indexes that have the same version, the one named first gives the files.

    indexes:    simple indexes (PEP 503), none for an offline site
    find_links: folders and pages that hold wheels
    """

    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """uv's options."""
        found = ["--default-index", self.indexes[-1]] if self.indexes else ["--no-index"]
        for address in self.indexes[:-1]:
            found += ["--index", address]
        for place in self.find_links:
            found += ["--find-links", place]
        # As pip does it: the newest version wins wherever it lies, not the first index that knows the name.
        return [*found, "--index-strategy", "unsafe-best-match"]


def places_to_ask(selection: Selection, pip: PipConfig, mirrors: Mirrors) -> Iterator[Places]:
    """The places to look in, one set after the other: each is asked when the one before lacks something.

    The main index comes without pip's extra ones first, so that locks agree between machines: the extra ones are
    often part copies, and where the main one can answer alone they would only decide which of several equal files
    is seen.

    Folders of wheels hold what no index has, such as PyTorch's CPU builds. Where those aren't wanted a folder would
    only add versions (2.13.0+cpu satisfies a pin on 2.13.0), so it is asked only where it is all there is.
    """
    pinned = selection.sources.wheels
    folders, indexes = _split(mirrors.wheels)
    main, links = indexes, folders
    extra: tuple[str, ...] = ()
    if not mirrors.wheels:
        main = tuple(filter(None, [pinned if pip.index_is_default and pinned != "pip" else pip.index]))
        extra = pip.extra_indexes
        links = pip.find_links if _wants_pytorch(selection) or not main else ()
    pytorch = mirrors.pytorch or tuple(filter(None, [selection.sources.pytorch]))
    if not _wants_pytorch(selection):
        pytorch = ()
    first = pytorch if mirrors.pytorch or (main and not links) else ()
    tried = [Places((*main, *first), links)]
    if mirrors.wheels:
        tried.append(Places((*main, *first), (*links, *indexes)))  # perhaps pages of wheels, and no simple indexes
    tried.append(Places((*main, *first, *extra), links) if main else tried[0])
    tried.append(Places((*main, *pytorch, *extra), links) if main else tried[0])
    yield from dict.fromkeys(tried)


def _wants_pytorch(selection: Selection) -> bool:
    return "pytorch" in selection.wheel_sources


def _split(addresses: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders of wheels, and simple indexes (also as folders, then with one folder for each distribution)."""
    folders, indexes = [], []
    for address in addresses:
        path = local_path(address)
        if path is None:
            indexes.append(address)
        elif any(path.glob("*.whl")):
            folders.append(str(path))
        else:
            indexes.append(Path(path).resolve().as_uri())
    return tuple(folders), tuple(indexes)
