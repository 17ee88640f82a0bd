"""An open wheel as the files that installing it gives: path in the image, mode, size, hash, content on demand."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from packaging.tags import Tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from slipway.lock.model import Wheel
from slipway.wheel import metadata, record, scripts
from slipway.wheel.archive import Archive, Member
from slipway.wheel.name import check_name
from slipway.wheel.paths import Venv, check_member
from slipway.wheel.record import Row, row_of
from slipway.wheel.refused import RefusedWheel

FORMAT = 1
"""Part of the key of every layer of wheels: raise it when the same wheel would give other files."""

INSTALLER = b"slipway\n"
EXECUTABLE, PLAIN = 0o755, 0o644
_UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")  # of dist-info: RECORD can't hold their hashes
_OURS = ("RECORD", "INSTALLER")  # of dist-info: written anew
_LINK_LIMIT = 4096


class File(NamedTuple):
    """One file in the image: a member of the wheel, or generated `content`, or a symlink to `target`.

    row: what RECORD in the image says of it
    """

    path: str
    mode: int
    size: int
    row: Row
    member: Member | None = None
    content: bytes = b""
    target: str = ""


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
        self._may_differ = excuse is not None
        self._archive = Archive(path, wheel.file)
        try:
            self.dist_info = self._find_dist_info()
            self._check_metadata()
            self.files = self._install(self._read_rows())
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
            raise self._wrong_record([f"{name}: {found}, RECORD says {file.row.hash}"])

    def read(self, file: File) -> bytes:
        """The whole content of a file."""
        return b"".join(self.chunks(file))

    def record(self, extra: Iterable[str] = (), without: Collection[str] = ()) -> bytes:
        """RECORD as it stands in the image, by the paths there.

        extra:   files that belong to this distribution but have no hash (byte-code)
        without: files that another wheel owns
        """
        site = self.venv.site
        rows = [(posixpath.relpath(path, site), Row()) for path in (*extra, self.record_path)]
        prefix = f"{site}/"
        for file in self.files:
            if file.path not in without:
                inside = file.path.startswith(prefix)
                rows.append((file.path[len(prefix) :] if inside else posixpath.relpath(file.path, site), file.row))
        return record.dump(rows)

    @property
    def record_path(self) -> str:
        return f"{self.venv.site}/{self.dist_info}/RECORD"

    def _find_dist_info(self) -> str:
        candidates = (member.name.partition("/")[0] for member in self._archive.members if ".dist-info/" in member.name)
        found = sorted({top for top in candidates if _is_info(top)})
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

    def _info(self, name: str) -> tuple[str, bytes] | None:
        """Name and content of a file in dist-info."""
        member = self._archive.get(f"{self.dist_info}/{name}")
        return None if member is None else (member.name, self._archive.read(member))

    def _need_info(self, name: str) -> tuple[str, bytes]:
        if (found := self._info(name)) is None:
            raise RefusedWheel(self.label, f"it has no {self.dist_info}/{name}")
        return found

    def _check_metadata(self) -> None:
        name, content = self._need_info("WHEEL")
        metadata.check_wheel_file(content, self.label, name)
        name, content = self._need_info("METADATA")
        metadata.check_metadata(content, self.name, self.label, name)

    def _read_rows(self) -> dict[str, Row]:
        """A verified-to-be row for each member. Raises RefusedWheel when RECORD and archive don't agree."""
        name, content = self._need_info("RECORD")
        rows = record.parse(content, self.label, name)
        unlisted = {f"{self.dist_info}/{own}" for own in _UNLISTED}
        wrong = []
        for member in self._archive.members:
            if member.name in unlisted:
                rows[member.name] = Row("", member.size)
            elif (row := rows.get(member.name)) is None:
                wrong.append(f"{member.name}: not in RECORD")
            elif not row.hash:
                wrong.append(f"{member.name}: no hash in RECORD")
            elif row.size is None:
                rows[member.name] = row._replace(size=member.size)
            elif row.size != member.size:
                wrong.append(f"{member.name}: {member.size} bytes, RECORD says {row.size}")
        there = {member.name for member in self._archive.members}
        wrong += [f"{path}: in RECORD, but not there" for path in rows if path not in there and path not in unlisted]
        if wrong and not self._may_differ:
            raise self._wrong_record(wrong)
        return self._real_rows(rows, unlisted) if self._may_differ else rows

    def _real_rows(self, rows: dict[str, Row], unlisted: Collection[str]) -> dict[str, Row]:
        """Hash all members of an excused wheel."""
        real = {}
        for member in self._archive.members:
            old = rows.get(member.name, Row())
            if member.name in unlisted:
                real[member.name] = old
                continue
            digest = hashlib.new(old.algorithm or "sha256")
            for chunk in self._archive.chunks(member):
                digest.update(chunk)
            real[member.name] = Row(record.spell(digest.name, digest.digest()), member.size)
            if real[member.name] != old:
                self.excused.append(member.name)
        return real

    def _install(self, rows: dict[str, Row]) -> tuple[File, ...]:
        files: dict[str, File] = {}
        links = []
        made = self._launchers()
        info = f"{self.dist_info}/"
        skipped = {info + name for name in _OURS}
        site = self.venv.site
        for member in self._archive.members:
            name = member.name
            if name in skipped:
                continue
            top = name.partition("/")[0]
            if top.endswith(".data") or _is_info(top):
                file = self._place(member, rows[name])
                if file.path in made:
                    continue
            else:
                mode = EXECUTABLE if member.executable else PLAIN
                file = File(f"{site}/{name}", mode, member.size, rows[name], member)
            if member.link:
                links.append(file)
            elif files.setdefault(file.path, file) is not file:
                raise self._twice(file)
        for path, content in {**made, f"{site}/{info}INSTALLER": INSTALLER}.items():
            mode = EXECUTABLE if path in made else PLAIN
            made_file = File(path, mode, len(content), row_of(content), None, content)
            if files.setdefault(path, made_file) is not made_file:
                raise self._twice(made_file)
        for link in [self._link(file, files) for file in links]:
            if files.setdefault(link.path, link) is not link:
                raise self._twice(link)
        return tuple(files[path] for path in sorted(files))

    def _launchers(self) -> dict[str, bytes]:
        """Programs of entry points, by path."""
        if (found := self._info("entry_points.txt")) is None:
            return {}
        name, content = found
        made = scripts.launchers(content, self.label, name, self.venv.interpreter)
        return {f"{self.venv.scripts}/{script}": text for script, text in made.items()}

    def _place(self, member: Member, row: Row) -> File:
        """A member of the dist-info or of the .data folder."""
        top, _, rest = member.name.partition("/")
        mode = EXECUTABLE if member.executable else PLAIN
        if not top.endswith(".data"):
            return File(f"{self.venv.site}/{member.name}", mode, member.size, row, member)
        own, _, version = top.removesuffix(".data").rpartition("-")
        scheme, _, path = rest.partition("/")
        folder = self.venv.scheme(scheme, self.name.distribution)
        if folder is None or not path or not self._is_own(own, version):
            raise RefusedWheel(self.label, "it belongs to no installation scheme", member=member.name)
        target = f"{folder}/{path}"
        check_member(target, self.label)
        if _is_info(path.partition("/")[0]) and not path.startswith(f"{self.dist_info}/") and folder == self.venv.site:
            raise RefusedWheel(self.label, "it lies in another distribution's dist-info", member=member.name)
        if scheme != "scripts":
            return File(target, mode, member.size, row, member)
        if member.link or not scripts.has_placeholder(self._archive.start(member, 8)):
            return File(target, EXECUTABLE, member.size, row, member)
        original = self.read(File(target, EXECUTABLE, member.size, row, member))
        content = scripts.with_interpreter(original, self.venv.interpreter)
        return File(target, EXECUTABLE, len(content), row_of(content), None, content)

    def _link(self, file: File, files: dict[str, File]) -> File:
        """A symlink. It may only lead to a file of the same wheel; its row is that file's, as pip would read it."""
        member = file.member
        if member is None:  # for the type checker: links are always members
            return file
        if member.size > _LINK_LIMIT:
            raise RefusedWheel(self.label, "it is a symlink with an absurdly long target", member=member.name)
        target = self.read(file).decode("utf-8", "replace")
        end = files.get(posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target)))
        if target.startswith("/") or "\0" in target or "\\" in target or end is None:
            raise RefusedWheel(
                self.label,
                f"it is a symlink to {target!a}, which is no file of this wheel",
                member=member.name,
                why="writing through it, or reading it, could reach anything in the image",
            )
        return File(file.path, 0o777, 0, end.row, None, b"", target)

    def _twice(self, file: File) -> RefusedWheel:
        name = file.member.name if file.member else file.path
        return RefusedWheel(self.label, f"two of its files would be installed as {file.path}", member=name)

    def _wrong_record(self, wrong: list[str]) -> RefusedWheel:
        shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        return RefusedWheel(
            self.label,
            f"its RECORD contradicts its content: {shown}",
            why="what is installed is not what the wheel's maker listed",
            remedy="pin another version, or, where the wheel is known to be like that, excuse it in versions.toml: "
            f'excuses."{self.wheel.sha256}" = "the reason"',
        )


def _is_info(top: str) -> bool:
    return top.endswith(".dist-info")
