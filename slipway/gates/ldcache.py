"""The loader's cache fits the tree: it names files that are there, and knows what its folders hold.

ld.so reads /etc/ld.so.cache and not its configuration. ldconfig enters what the configured folders hold under lib*.so*
names; a cache made before the last layer lacks some. Subject of a finding: `etc/ld.so.cache`.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "ldcache"
PROVES = "the loader's cache names what is there, and all of it"


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text. An image without a cache is searched by its configuration."""
    del settings
    loader = image.loader
    if loader.cache_error:
        yield _finding(f"the loader's cache is damaged: {loader.cache_error}")
    if loader.cache is None:
        return
    gone = {path for path in loader.cache.values() if loader.tree.get(path.lstrip("/")) is None}
    if gone:
        yield _finding(f"the loader's cache names files that are not there: {_some(gone)}")
    folders = {loader.tree.resolve(folder) for folder in loader.configured} - {None}
    unknown = {
        node.path
        for name, nodes in loader.by_soname.items()
        for node in nodes
        if name not in loader.cache
        and name.startswith("lib")
        and node.member.elf
        and node.member.elf.soname == name
        and node.path.rpartition("/")[0] in folders
    }
    if unknown:
        yield _finding(f"the loader's cache lacks libraries of its folders: {_some(unknown)}")


def _some(paths: set[str]) -> str:
    return ", ".join(sorted(paths)[:10]) + (" …" if len(paths) > 10 else "")


def _finding(what: str) -> Finding:
    return Finding(
        "etc/ld.so.cache",
        what,
        "the loader looks there and, but for its default folders, nowhere else",
        "make it with ldconfig over the finished tree, as the last layer",
    )
