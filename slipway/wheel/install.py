"""Where the members of one wheel end up, with the files that installing it makes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple

from slipway.wheel import scripts
from slipway.wheel.archive import Archive
from slipway.wheel.member import Member
from slipway.wheel.paths import Venv, check_member
from slipway.wheel.record import Row, row_of
from slipway.wheel.refused import RefusedWheel

INSTALLER = b"slipway\n"
EXECUTABLE, PLAIN = 0o755, 0o644
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


class Installation:
    """One wheel being installed into one venv.

    distribution: the wheel's normalised name
    is_own:       whether a name and a version, as written, are the wheel's
    read:         the checked content of a member's file
    """

    def __init__(
        self,
        archive: Archive,
        venv: Venv,
        distribution: str,
        dist_info: str,
        is_own: Callable[[str, str], bool],
        read: Callable[[File], bytes],
    ) -> None:
        self._archive = archive
        self._wheel = archive.label
        self._venv = venv
        self._distribution = distribution
        self._info = f"{dist_info}/"
        self._is_own = is_own
        self._read = read

    def files(self, rows: Mapping[str, Row]) -> tuple[File, ...]:
        """All files but RECORD, sorted by path. Raises RefusedWheel for a member that has no place."""
        files: dict[str, File] = {}
        links = []
        made = self._launchers()
        skipped = {self._info + name for name in _OURS}
        site = self._venv.site
        for member in self._archive.members:
            name = member.name
            if name in skipped:
                continue
            if name.partition("/")[0].endswith(".data"):
                file = self._place(member, rows[name])
                if file.path in made:
                    continue
            else:
                mode = EXECUTABLE if member.executable else PLAIN
                file = File(f"{site}/{name}", mode, member.size, rows[name], member)
            if member.link:
                links.append((file, member))
            elif files.setdefault(file.path, file) is not file:
                raise self._twice(file)
        for path, content in {**made, f"{site}/{self._info}INSTALLER": INSTALLER}.items():
            mode = EXECUTABLE if path in made else PLAIN
            made_file = File(path, mode, len(content), row_of(content), None, content)
            if files.setdefault(path, made_file) is not made_file:
                raise self._twice(made_file)
        for link in [self._link(file, member, files) for file, member in links]:
            if files.setdefault(link.path, link) is not link:
                raise self._twice(link)
        return tuple(files[path] for path in sorted(files))

    def _launchers(self) -> dict[str, bytes]:
        """Programs of entry points, by path."""
        member = self._archive.get(f"{self._info}entry_points.txt")
        if member is None:
            return {}
        made = scripts.launchers(self._archive.read(member), self._wheel, member.name, self._venv.interpreter)
        return {f"{self._venv.scripts}/{script}": text for script, text in made.items()}

    def _place(self, member: Member, row: Row) -> File:
        """A member of the .data folder."""
        top, _, rest = member.name.partition("/")
        own, _, version = top.removesuffix(".data").rpartition("-")
        scheme, _, path = rest.partition("/")
        folder = self._venv.scheme(scheme, self._distribution)
        if folder is None or not path or not self._is_own(own, version):
            raise RefusedWheel(self._wheel, "it belongs to no installation scheme", member=member.name)
        target = f"{folder}/{path}"
        check_member(target, self._wheel)
        inside = target.removeprefix(f"{self._venv.site}/")
        if inside != target and inside.partition("/")[0].endswith(".dist-info"):
            raise RefusedWheel(
                self._wheel,
                "it would be installed into a dist-info folder",
                member=member.name,
                why="what the image says of its packages would not be what their wheels say",
            )
        if scheme != "scripts":
            mode = EXECUTABLE if member.executable else PLAIN
            return File(target, mode, member.size, row, member)
        file = File(target, EXECUTABLE, member.size, row, member)
        if member.link or not scripts.has_placeholder(self._archive.start(member, 8)):
            return file
        content = scripts.with_interpreter(self._read(file), self._venv.interpreter)
        return File(target, EXECUTABLE, len(content), row_of(content), None, content)

    def _link(self, file: File, member: Member, files: Mapping[str, File]) -> File:
        """A symlink. It may only lead to a file of the same wheel; its row is that file's, as pip would read it."""
        if member.size > _LINK_LIMIT:
            raise RefusedWheel(self._wheel, "it is a symlink with an absurdly long target", member=member.name)
        target = self._read(file).decode("utf-8", "replace")
        end = files.get(posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target)))
        if target.startswith("/") or "\0" in target or "\\" in target or end is None:
            raise RefusedWheel(
                self._wheel,
                f"it is a symlink to {target!a}, which is no file of this wheel",
                member=member.name,
                why="writing through it, or reading it, could reach anything in the image",
            )
        return File(file.path, 0o777, 0, end.row, None, b"", target)

    def _twice(self, file: File) -> RefusedWheel:
        name = file.member.name if file.member else file.path
        return RefusedWheel(self._wheel, f"two of its files would be installed as {file.path}", member=name)
