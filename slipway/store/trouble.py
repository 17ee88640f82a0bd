"""What the file system can answer, in words a user can act on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from slipway.errors import MissingError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
ELSEWHERE = "name another folder with --store DIR or SLIPWAY_STORE"


def full(path: Path, detail: str = "") -> MissingError:
    """The disk or the user's quota has no room left."""
    return MissingError(
        "no space is left where the store is" + (f" ({detail})" if detail else ""),
        where=path,
        why="what is already there stays usable, and a download goes on where it stopped",
        remedy=f"free space (`python3 build.py store prune` removes what no lock names), or {ELSEWHERE}",
    )


@contextlib.contextmanager
def explained(path: Path, doing: str = "write to the store") -> Iterator[None]:
    """Turn an OSError from below into MissingError (exit 3) that names the folder and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise full(path) from error
        if error.errno in FORBIDDEN:
            raise MissingError(
                f"can't {doing}: {error.strerror or error}",
                where=error.filename or path,
                remedy=f"make it writable for this user, or {ELSEWHERE}",
            ) from error
        raise MissingError(
            f"can't {doing}: {error.strerror or error}", where=error.filename or path, remedy=ELSEWHERE
        ) from error
