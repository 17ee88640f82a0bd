"""Files on their way into the store. The unfinished file is itself the lock that says who works on it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from slipway.sources.outcome import Cancelled

READ_SIZE = 1 << 20
POLL = 0.1
"""Seconds between two looks at a file that another process is downloading."""

FILE_MODE = 0o444
"""Nobody writes to a file of the store again. Set explicitly: the umask has no say in it."""


class Part:
    """`size` bytes that shall hash to `sha256`, of which the first `position` are there. One process holds it."""

    def __init__(self, path: Path, descriptor: int, sha256: str, size: int) -> None:
        self.path = path
        self.sha256 = sha256
        self.size = size
        self.position = 0
        self.inherited = 0
        """Leading bytes that an earlier run left behind."""
        self._descriptor = descriptor
        self._hash = hashlib.sha256()

    def take_over(self) -> None:
        """Hash what an earlier run left, so that the download can go on behind it."""
        while chunk := os.read(self._descriptor, READ_SIZE):
            self._hash.update(chunk)
            self.position += len(chunk)
        self.inherited = self.position
        if self.position > self.size:
            self.restart()

    def write(self, data: bytes) -> None:
        """Append. Raises ValueError beyond `size`: nothing larger than announced is ever written."""
        if self.position + len(data) > self.size:
            raise ValueError(f"{self.path.name}: more than {self.size} bytes")
        view = memoryview(data)
        self._hash.update(view)
        while view:
            written = os.write(self._descriptor, view)
            self.position += written
            view = view[written:]

    def restart(self) -> None:
        """Throw away all bytes."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.position = self.inherited = 0
        self._hash = hashlib.sha256()

    def hexdigest(self) -> str:
        """The hash of the bytes so far."""
        return self._hash.hexdigest()

    @property
    def is_right(self) -> bool:
        """Whether all bytes are there and are the wanted ones."""
        return self.position == self.size and self.hexdigest() == self.sha256

    def publish(self, final: Path) -> None:
        """Give it its name in the store. Raises ValueError unless `is_right`.

        The bytes are on disk before the name is: after a power cut the name is missing or right. Whether the new
        directory entry itself has reached the disk does not matter; without it the file is fetched again.
        """
        if not self.is_right:
            raise ValueError(f"{self.path.name} is not what it should be")
        os.fchmod(self._descriptor, FILE_MODE)
        os.fsync(self._descriptor)
        self.path.replace(final)


@contextlib.contextmanager
def hold(path: Path, sha256: str, size: int, cancel: threading.Event | None = None) -> Iterator[Part]:
    """Open, or create, the unfinished file at `path` and keep other processes and threads out while it is open.

    An empty file is removed at the end, one with bytes stays for the next run. Raises Cancelled while it waits.
    """
    descriptor = _lock(path, cancel or threading.Event())
    part = Part(path, descriptor, sha256, size)
    try:
        part.take_over()
        yield part
    finally:
        if part.position == 0 and _is_at(path, descriptor):
            path.unlink(missing_ok=True)
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether some process works on this unfinished file right now."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(path: Path, cancel: threading.Event) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if cancel.wait(POLL):
                raise Cancelled from None
            continue
        except OSError:
            os.close(descriptor)
            raise
        if _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)  # whoever held it has published or removed it meanwhile


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there, ours = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
