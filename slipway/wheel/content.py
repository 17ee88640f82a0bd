"""An open wheel as the files that installing it gives: path in the image, mode, size, hash, content on demand."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from slipway.lock.model import Wheel
from slipway.wheel import metadata, record
from slipway.wheel.archive import Archive
from slipway.wheel.install import File, Installation
from slipway.wheel.name import check_name
from slipway.wheel.paths import Venv
from slipway.wheel.record import Row
from slipway.wheel.refused import RefusedWheel
from slipway.wheel.rows import contradiction, real_rows_of, rows_of

FORMAT = 1
"""Part of the key of every layer of wheels: raise it when the same wheel would give other files."""


def _relative(path: str, start: str) -> str:
    """posixpath.relpath of two paths within one tree, which would ask for the current folder (it may be gone)."""
    return posixpath.relpath(f"/{path}", f"/{start}")


class OpenWheel:
    """A wheel, opened and checked as far as that goes without reading all of it; a context manager.

    files:   what it installs, sorted by path, without RECORD
    excused: members that contradict RECORD, in a wheel that may; their rows state the real hashes
    """

    def __init__(
        self,
        path: Path,
        wheel: Wheel,
        venv: Venv,
        *,
        tags: Collection[Tag] | None = None,
        excuse: str | None = None,
    ) -> None:
        """Raises UsageError when the file name is wrong for the lock or the image, RefusedWheel for the rest.

        tags:   what the image accepts; None leaves that check out
        excuse: why members of this wheel may contradict its RECORD
        """
        self.wheel = wheel
        self.label = wheel.file
        self.name = check_name(wheel, tags)
        self.venv = venv
        self.excused: list[str] = []
        self._archive = Archive(path, wheel.file)
        try:
            self.dist_info = self._find_dist_info()
            self._check_metadata()
            if excuse is None:
                rows = rows_of(self._archive, self.dist_info, self._info("RECORD"), wheel)
            else:
                rows, self.excused = real_rows_of(self._archive, self.dist_info, self._info("RECORD"), wheel)
            installation = Installation(
                self._archive, venv, self.name.distribution, self.dist_info, self._is_own, self.read
            )
            self.files = installation.files(rows)
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> OpenWheel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._archive.close()

    def chunks(self, file: File) -> Iterator[bytes]:
        """A file's content in pieces. Raises RefusedWheel at the end when its size, CRC or hash is wrong."""
        member = file.member
        if member is None:
            yield file.content
            return
        if member.is_small:
            content = self._archive.small(member)
            if file.row.hash.startswith("sha256="):
                self._compare(file, hashlib.sha256(content))
            elif file.row.hash:
                self._compare(file, hashlib.new(file.row.algorithm, content))
            yield content
            return
        digest = hashlib.new(file.row.algorithm) if file.row.hash else None
        for chunk in self._archive.chunks(member):
            if digest is not None:
                digest.update(chunk)
            yield chunk
        if digest is not None:
            self._compare(file, digest)

    def _compare(self, file: File, digest: hashlib._Hash) -> None:
        found = record.spell(digest.name, digest.digest())
        if found != file.row.hash:
            name = file.member.name if file.member else file.path
            raise contradiction(self.wheel, [f"{name}: {found}, RECORD says {file.row.hash}"])

    def read(self, file: File) -> bytes:
        """The whole content of a file."""
        return b"".join(self.chunks(file))

    def record(self, extra: Iterable[str] = (), without: Collection[str] = ()) -> bytes:
        """RECORD as it stands in the image, by the paths there.

        extra:   files that belong to this distribution but have no hash (byte-code)
        without: files that another wheel owns
        """
        site = self.venv.site
        rows = [(_relative(path, site), Row()) for path in (*extra, self.record_path)]
        prefix = f"{site}/"
        for file in self.files:
            if file.path not in without:
                inside = file.path.startswith(prefix)
                rows.append((file.path[len(prefix) :] if inside else _relative(file.path, site), file.row))
        return record.dump(rows)

    @property
    def record_path(self) -> str:
        return f"{self.venv.site}/{self.dist_info}/RECORD"

    def _find_dist_info(self) -> str:
        candidates = (member.name.partition("/")[0] for member in self._archive.members if ".dist-info/" in member.name)
        found = sorted({top for top in candidates if top.endswith(".dist-info")})
        if len(found) != 1:
            raise RefusedWheel(self.label, f"it has {len(found)} dist-info folders at its top ({', '.join(found)})")
        own, _, version = found[0].removesuffix(".dist-info").rpartition("-")
        if not self._is_own(own, version):
            raise RefusedWheel(
                self.label,
                f"its file name does not agree with {found[0]}",
                why="a renamed wheel would enter the image as another package",
            )
        return found[0]

    def _is_own(self, name: str, version: str) -> bool:
        try:
            return canonicalize_name(name) == self.name.distribution and Version(version) == self.name.version
        except InvalidVersion:
            return False

    def _info(self, name: str) -> bytes:
        """A file that every dist-info has."""
        if (member := self._archive.get(f"{self.dist_info}/{name}")) is None:
            raise RefusedWheel(self.label, f"it has no {self.dist_info}/{name}")
        return self._archive.read(member)

    def _check_metadata(self) -> None:
        metadata.check_wheel_file(self._info("WHEEL"), self.label, f"{self.dist_info}/WHEEL")
        metadata.check_metadata(self._info("METADATA"), self.name, self.label, f"{self.dist_info}/METADATA")
