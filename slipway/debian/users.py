"""The user an image runs as, in Debian's user tables: passwd(5), shadow(5).

Its group is 0, and all it may write is writable for group 0: a platform that starts containers under a user id of its
own choice puts that id into group 0, and it can then do what `ray` can. Such an id has no name; HOME comes from the
image's environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.layers.entry import Entry, Opener
from slipway.layers.tar import MTIME

LAST_CHANGE = MTIME // 86_400
"""Days since 1970 in shadow's third field: the day of all files in an image, not the day of the build."""


@dataclass(frozen=True)
class User:
    """The image's user. home is relative to the image's root."""

    name: str = "ray"
    uid: int = 1000
    gid: int = 0
    home: str = "home/ray"
    shell: str = "/bin/bash"
    folders: tuple[str, ...] = (".cache", ".config", ".local")

    def as_json(self) -> dict[str, object]:
        """For the layer's key."""
        return {
            "name": self.name,
            "uid": self.uid,
            "gid": self.gid,
            "home": self.home,
            "shell": self.shell,
            "folders": list(self.folders),
        }


USER = User()


def passwd(text: str, user: User) -> str:
    """/etc/passwd with `user` at its end."""
    line = f"{user.name}:x:{user.uid}:{user.gid}:{user.name}:/{user.home}:{user.shell}"
    return _with_line(text, user.name, line)


def shadow(text: str, user: User) -> str:
    """/etc/shadow with `user`, whose password is locked, and with one date of last change for everybody."""
    lines = []
    for line in _with_line(text, user.name, f"{user.name}:!:0:0:99999:7:::").splitlines():
        fields = line.split(":")
        if len(fields) > 2:
            fields[2] = str(LAST_CHANGE)
        lines.append(":".join(fields))
    return "".join(f"{line}\n" for line in lines)


def _with_line(text: str, name: str, line: str) -> str:
    others = [known for known in text.splitlines() if known and known.split(":")[0] != name]
    return "".join(f"{each}\n" for each in (*others, line))


def home(user: User, skeleton: Mapping[str, tuple[int, Opener]]) -> list[Entry]:
    """The home folder: `skeleton` (name → size and content of /etc/skel's files) and the cache folders."""
    folders = [user.home, *(f"{user.home}/{name}" for name in user.folders)]
    entries = [Entry(path, "directory", 0o775, uid=user.uid, gid=user.gid, origin="user") for path in folders]
    for name, (size, read) in sorted(skeleton.items()):
        entries.append(
            Entry(f"{user.home}/{name}", "file", 0o664, size, read, uid=user.uid, gid=user.gid, origin="user")
        )
    return entries
