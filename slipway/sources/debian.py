"""Where .debs and Debian's source tarballs come from: archives as apt uses them, each file at its pool path."""

from __future__ import annotations

import gzip
import lzma
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

from slipway.lock.model import Artifact, Deb, PoolFile
from slipway.sources.address import join, local_path, redact
from slipway.sources.apt import Archive, stanzas
from slipway.sources.http import Http
from slipway.sources.origin import Offer, Place
from slipway.sources.outcome import Absent, NotHad

INDEX_LIMIT = 128 << 20
"""Bytes of the longest Packages or Sources file that is read, packed; unpacked eight times as much."""

UPDATES = "pool/updates/"
"""Debian's security archive keeps its pool here; a point release moves the same files to pool/ of the main one."""


class DebianArchives:
    """Several archives, tried in the order in which they are configured, those with the artifact's own suite first."""

    def __init__(self, archives: list[Archive], http: Http, label: str = "Debian archive") -> None:
        self.name = ", ".join(f"{label} {redact(archive.root)}" for archive in archives)
        self._archives = archives
        self._http = http
        self._lock = threading.Lock()
        self._indexes: dict[str, list[dict[str, str]]] = {}

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if not isinstance(artifact, PoolFile):
            return
        configured = {archive.root for archive in self._archives}
        for archive in self._ordered(artifact.suite):
            if _can_hold(archive, artifact.path):
                yield self._place(archive.root, artifact.path)
        for archive in self._archives:
            sibling = f"{archive.root}-security"
            if artifact.path.startswith(UPDATES):
                yield self._place(archive.root, artifact.path.replace(UPDATES, "pool/", 1), guess=True)
                if archive.root.endswith("/debian") and sibling not in configured:
                    yield self._place(sibling, artifact.path, guess=True)
        for archive in self._archives:
            if not _can_hold(archive, artifact.path):
                yield self._place(archive.root, artifact.path, guess=True)

    def offered(self, artifact: Artifact) -> list[Offer]:
        """Versions of the package that the archives' indexes list now, in its suite and that suite's updates."""
        if not isinstance(artifact, PoolFile):
            return []
        base = artifact.suite.removesuffix("-security").removesuffix("-updates")
        found: dict[str, Offer] = {}
        for archive in self._archives:
            for suite in archive.suites or dict.fromkeys((artifact.suite, base)):
                if suite in (artifact.suite, base, f"{base}-updates", f"{base}-security"):
                    for stanza in self._index(archive.root, suite, artifact):
                        offer = Offer(stanza.get("version", "?"), f"{redact(archive.root)} {suite}")
                        found.setdefault(offer.version, offer)
        return list(found.values())

    def _ordered(self, suite: str) -> list[Archive]:
        return sorted(self._archives, key=lambda archive: suite not in archive.suites)

    def _place(self, root: str, path: str, *, guess: bool = False) -> Place:
        folder = local_path(root)
        if folder is not None:
            return Place(str(folder / path), path=folder / path, guess=guess)
        return Place(join(root, path), http=self._http, guess=guess)

    def _index(self, root: str, suite: str, artifact: PoolFile) -> list[dict[str, str]]:
        """The stanzas of one package in an archive's index; none where the index can't be had."""
        kind = f"binary-{artifact.arch}" if isinstance(artifact, Deb) else "source"
        if isinstance(artifact, Deb) and artifact.arch == "all":
            kind = f"binary-{artifact.file.rpartition('_')[2].removesuffix('.deb')}"
        folder = f"dists/{suite}/{artifact.component}/{kind}"
        with self._lock:
            if (key := f"{root}/{folder}") not in self._indexes:
                self._indexes[key] = list(self._read_index(root, folder))
            stanzas_ = self._indexes[key]
        return [stanza for stanza in stanzas_ if stanza.get("package") == artifact.name]

    def _read_index(self, root: str, folder: str) -> Iterator[dict[str, str]]:
        file = "Sources" if folder.endswith("source") else "Packages"
        for ending in (".xz", ".gz", ""):
            try:
                text = self._read(root, f"{folder}/{file}{ending}", ending)
            except NotHad:
                continue
            for stanza in stanzas(text):
                yield {name: stanza[name] for name in ("package", "version") if name in stanza}
            return

    def _read(self, root: str, path: str, ending: str) -> str:
        local = local_path(root)
        if local is not None:
            content = _read_local(local / path)
        else:
            content, _response = self._http.get(join(root, path), limit=INDEX_LIMIT)
        return unpack(content, ending, join(root, path)).decode("utf-8", "replace")


def unpack(content: bytes, ending: str, address: str) -> bytes:
    """An index file's text. Raises Absent when it can't be unpacked or is absurdly long."""
    limit = INDEX_LIMIT * 8
    try:
        if ending == ".xz":
            content = lzma.LZMADecompressor().decompress(content, limit)
        elif ending == ".gz":
            content = zlib.decompressobj(wbits=31).decompress(content, limit)
    except (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise Absent(redact(address), f"can't be unpacked: {error}") from None
    if len(content) >= limit:
        raise Absent(redact(address), "is absurdly long")
    return content


def _read_local(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Absent(str(path), error.strerror or str(error)) from None


def _can_hold(archive: Archive, path: str) -> bool:
    """A security archive's pool is pool/updates/ and no other archive's is; archives named by hand may be both."""
    if not archive.suites:
        return True
    is_security = all(suite.endswith(("-security", "/updates")) for suite in archive.suites)
    return is_security == path.startswith(UPDATES)
