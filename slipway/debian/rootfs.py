"""From the tar of a root file system to entries, contents kept in a spool file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO

from slipway.errors import BuildFailed
from slipway.inspect.untar import Source, TarReader
from slipway.layers.entry import Entry

_CHUNK = 1 << 20


class Spool:
    """A file that contents are appended to and read from again, in any order, by any thread."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0

    def add(self, chunks: Iterator[bytes]) -> tuple[int, int]:
        """Append; returns (offset, size)."""
        start = self._end
        for chunk in chunks:
            self._file.write(chunk)
            self._end += len(chunk)
        return start, self._end - start

    def reader(self, start: int, size: int) -> Callable[[], Iterator[bytes]]:
        """An Entry's `read` for what `add` returned."""

        def read() -> Iterator[bytes]:
            at, end = start, start + size
            while at < end:
                data = os.pread(self._file.fileno(), min(_CHUNK, end - at), at)
                if not data:
                    raise BuildFailed("the spool of a layer is shorter than it was", where=self._file.name)
                at += len(data)
                yield data

        return read

    def flush(self) -> None:
        """Make what was added readable."""
        self._file.flush()


def read_rootfs(source: Source, spool: Spool, name: str) -> list[Entry]:
    """Entries of all members but device files, pipes and the root itself. Raises WrongArtifact for a broken tar."""
    return read_members(TarReader(source, name), spool, name)


def read_members(tar: TarReader, spool: Spool, name: str) -> list[Entry]:
    """The same from a tar that is open."""
    entries = []
    for member in tar:
        if not member.path or member.kind == "device" or member.kind == "fifo":
            continue
        entry = Entry(
            member.path,
            member.kind,
            member.mode,
            uid=member.uid,
            gid=member.gid,
            target=member.target,
            xattrs=member.xattrs,
            origin=name,
        )
        if member.kind == "file":
            start, size = spool.add(tar.content())
            entry = replace(entry, size=size, read=spool.reader(start, size))
        entries.append(entry)
    spool.flush()
    return entries


def relink(kept: list[Entry], everything: list[Entry]) -> list[Entry]:
    """Make hard links right after members were dropped: of each group the first path in the tar's order is the file.

    `everything` holds the entries before dropping; the content of a group may stand at a path that is gone.
    """
    files = {entry.path: entry for entry in everything if entry.kind == "file"}
    groups: dict[str, list[Entry]] = {}
    for entry in kept:
        if entry.kind == "hardlink":
            groups.setdefault(entry.target, []).append(entry)
    kept_paths = {entry.path for entry in kept}
    changed: dict[str, Entry] = {}
    for target, links in groups.items():
        content = files.get(target)
        if content is None:
            raise BuildFailed(f"{links[0].path} is a hard link to {target}, which is no file", where=links[0].origin)
        members = [*links, *([content] if target in kept_paths else [])]
        first = min((member.path for member in members), key=lambda path: path.split("/"))
        for member in members:
            as_file = replace(content, path=member.path)
            changed[member.path] = (
                as_file
                if member.path == first
                else replace(as_file, kind="hardlink", size=0, read=None, target=first, xattrs={})
            )
    return [changed.get(entry.path, entry) for entry in kept]
