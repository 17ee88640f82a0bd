"""From the root file system that mmdebstrap left to the one that enters the image. Pure: entries in, entries out."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from slipway.debian import rules, users
from slipway.debian.control import field, paragraphs, sorted_paragraphs
from slipway.debian.rootfs import relink
from slipway.errors import BuildFailed
from slipway.layers.entry import Entry, Opener, file_entry

SOURCES = "etc/apt/sources.list.d/debian.sources"
STATUS = "var/lib/dpkg/status"
_SET_ID, _STICKY, _OTHERS_WRITE = 0o6000, 0o1000, 0o002
_PYC_HEADER = 16


@dataclass(frozen=True)
class Settings:
    """What the image wants of its root file system.

    sources: text of /etc/apt/sources.list.d/debian.sources
    setuid:  paths that keep their setuid and setgid bits → reason
    files:   entries of ours, which stand in for packages' ones of the same path
    """

    sources: str
    user: users.User = users.USER
    setuid: Mapping[str, str] | None = None
    files: tuple[Entry, ...] = ()


def clean(everything: Iterable[Entry], settings: Settings) -> list[Entry]:
    """The image's entries. Raises BuildFailed when an entry of `settings.setuid` has no such bit to keep."""
    everything = list(everything)
    kept = relink([entry for entry in everything if not _dropped(entry)], everything)
    allowed = settings.setuid or {}
    idle = sorted(set(allowed) - {entry.path for entry in kept if entry.kind == "file" and entry.mode & _SET_ID})
    if idle:
        raise BuildFailed(
            f"no setuid or setgid bit to keep on {', '.join(idle)}",
            where="versions.toml, setuid",
            why="a list of exceptions is only as good as it is exact",
            remedy="remove the entry, or correct its path (relative to /, through /usr/bin instead of /bin)",
        )
    by_path = {entry.path: _edited(replace(entry, mode=_mode(entry, allowed)), settings) for entry in kept}
    skeleton = {
        posixpath.basename(entry.path): (entry.size, entry.read)
        for entry in by_path.values()
        if entry.path.startswith("etc/skel/") and entry.kind == "file" and entry.read is not None
    }
    added = [
        *users.home(settings.user, skeleton),
        file_entry(SOURCES, settings.sources.encode(), origin="sources"),
        file_entry("etc/machine-id", b"", origin="clean"),
        *settings.files,
    ]
    by_path.update({entry.path: entry for entry in added})
    _check_keys(settings.sources, by_path)
    return list(by_path.values())


def _check_keys(sources: str, by_path: Mapping[str, Entry]) -> None:
    """Raise BuildFailed when a keyring that the sources are tied to is not in the image."""
    for paragraph in paragraphs(sources):
        keyring = field(paragraph, "Signed-By")
        if keyring.startswith("/") and keyring.lstrip("/") not in by_path:
            raise BuildFailed(
                "the image lacks the keys of its own package sources",
                where=keyring,
                why="apt-get update would refuse them in every FROM",
                remedy="see that the lock has debian-archive-keyring, of the release's suite",
            )


def _dropped(entry: Entry) -> bool:
    if entry.kind == "directory" and entry.path.startswith("usr/share/doc/"):
        return True  # comes back as the parent of a licence
    if entry.kind == "symlink" and entry.path.startswith("etc/alternatives/"):
        return rules.dropped(entry.target.lstrip("/"), False)  # would dangle
    return rules.dropped(entry.path, entry.kind == "directory")


def _mode(entry: Entry, allowed: Mapping[str, str]) -> int:
    """Without setuid and setgid where no reason is given, and not writable for others except folders like /tmp."""
    if entry.kind == "symlink":
        return 0o777
    mode = entry.mode
    if entry.path not in allowed:
        mode &= ~_SET_ID
    if not (entry.kind == "directory" and mode & _STICKY):
        mode &= ~_OTHERS_WRITE
    return mode


def _edited(entry: Entry, settings: Settings) -> Entry:
    if entry.kind != "file" or entry.read is None:
        return entry
    if entry.path.endswith(".pyc"):
        return replace(entry, read=_always_valid(entry.read, entry.path))
    edit = _edit(entry.path, settings)
    if edit is None:
        return entry
    content = edit(b"".join(entry.read()).decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return replace(entry, size=len(content), read=lambda: iter((content,)))


def _edit(path: str, settings: Settings) -> Callable[[str], str] | None:
    if path == "etc/passwd":
        return lambda text: users.passwd(text, settings.user)
    if path == "etc/shadow":
        return lambda text: users.shadow(text, settings.user)
    if path == STATUS:
        return sorted_paragraphs
    if path.startswith("var/lib/dpkg/triggers/"):
        return lambda text: "".join(sorted(text.splitlines(keepends=True)))
    return None


def _always_valid(read: Opener, path: str) -> Opener:
    """Byte-code that Python takes without a look at its source, whose date all files of an image share (PEP 552).

    Packages' scripts compile it with a hash of the source, or with the source's date and size where an older compiler
    did. The hash need not be checked again; where there is none, zeros stand for it.
    """

    def content() -> Iterator[bytes]:
        chunks = read()
        start = next(chunks, b"")
        while len(start) < _PYC_HEADER and (more := next(chunks, b"")):
            start += more
        if len(start) < _PYC_HEADER:
            raise BuildFailed("byte-code without a header", where=path, why="Python would stop at it")
        flags = int.from_bytes(start[4:8], "little")
        if flags & 1:
            yield start[:4] + b"\x01\0\0\0" + start[8:]
        else:
            yield start[:4] + b"\x01\0\0\0" + bytes(8) + start[_PYC_HEADER:]
        yield from chunks

    return content
