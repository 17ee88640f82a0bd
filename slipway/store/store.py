"""Artifacts by content: looked up, verified, added, set aside when damaged.

    <root>/sha256/ab/<hex>   verified files, read-only
    <root>/stamps/ab/<hex>   what each looked like when it was hashed (slipway.store.stamp)
    <root>/part/<hex>        unfinished files, each locked by who works on it (slipway.store.part)
    <root>/damaged/<hex>     files whose bytes no longer were what their name says, kept to be looked at
    <root>/lock              held shared by builds, exclusively by prune

A process may be killed at any moment: a name under sha256/ appears only when its bytes are verified and on disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from slipway.errors import MissingError, WrongArtifact
from slipway.lock.model import Artifact
from slipway.sources.outcome import Cancelled
from slipway.store import stamp
from slipway.store.part import POLL, READ_SIZE, Part, hold
from slipway.store.trouble import explained

FOLDER_MODE = 0o755


class Store:
    """One store folder. Cheap to make; threads and processes may share the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()

    def path(self, sha256: str) -> Path:
        """Where a file of this hash lies, or would lie."""
        return self.root / "sha256" / sha256[:2] / sha256

    def stamp(self, sha256: str) -> Path:
        """Where its stamp lies, or would lie."""
        return self.root / "stamps" / sha256[:2] / sha256

    def has(self, artifact: Artifact) -> bool:
        """Whether it is here and looks as it did when its bytes were last hashed. Reads no bytes of it."""
        return stamp.holds(self.stamp(artifact.sha256), self.path(artifact.sha256))

    def missing(self, artifacts: Iterable[Artifact]) -> list[Artifact]:
        """Those that `has` does not vouch for, each hash once."""
        return [a for a in {a.sha256: a for a in artifacts}.values() if not self.has(a)]

    def checked(self, artifact: Artifact) -> Path:
        """The path of an artifact whose bytes have just been hashed and found right.

        Raises MissingError where it is not here, WrongArtifact with both hashes where it is damaged; the damaged file
        is set aside, so that the next fetch mends the store.
        """
        path = self.path(artifact.sha256)
        if (actual := self.verify(artifact.sha256)) is None:
            return path
        if not actual:
            raise MissingError(
                f"{artifact.label} is not in the store", where=path, remedy="python3 build.py fetch brings it"
            )
        raise WrongArtifact(
            f"the store's file of {artifact.label} is damaged",
            where=path,
            why=f"its bytes hash to {actual}, the lock says {artifact.sha256}",
            remedy="run the command again: the damaged file is set aside and will be fetched anew; if this happens "
            "again, look at the disk",
        )

    def verify(self, sha256: str) -> str | None:
        """Hash a file. None: right. "": not here. Else the hash that it really has; the file is then set aside."""
        path = self.path(sha256)
        try:
            inode = path.stat().st_ino
            actual = hash_file(path)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise MissingError(
                f"a file of the store can't be read: {error.strerror or error}",
                where=path,
                remedy="make it readable for this user; on an I/O error look at the disk",
            ) from error
        if actual == sha256:
            if not stamp.holds(self.stamp(sha256), path):
                stamp.write(self.stamp(sha256), path)
            return None
        self._set_aside(sha256, inode)
        return actual

    def _set_aside(self, sha256: str, inode: int) -> None:
        """Move a damaged file out of the way, unless another process has put a good one in its place meanwhile."""
        path = self.path(sha256)
        with explained(self.root, "set a damaged file of the store aside"), contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == inode:
                self.stamp(sha256).unlink(missing_ok=True)
                self._make(self.root / "damaged")
                path.replace(self.root / "damaged" / sha256)

    @contextlib.contextmanager
    def part(self, sha256: str, size: int, cancel: threading.Event | None = None) -> Iterator[Part | None]:
        """Hold the unfinished file of one artifact; None when another process has brought it meanwhile.

        Raises MissingError where the store can't be written, Cancelled when `cancel` is set during the wait.
        """
        with contextlib.ExitStack() as stack:
            with explained(self.root):
                self._make(self.root / "part")
                part = stack.enter_context(hold(self.root / "part" / sha256, sha256, size, cancel))
            # Whoever brought it may not have written the stamp yet, or was killed before: then it is hashed here.
            if stamp.holds(self.stamp(sha256), self.path(sha256)) or self.verify(sha256) is None:
                part.restart()
                yield None
            else:
                yield part

    def publish(self, part: Part) -> Path:
        """Give a complete part its name here. Raises ValueError when its bytes are not right."""
        final = self.path(part.sha256)
        with explained(self.root):
            self._make(final.parent)
            self._make(self.stamp(part.sha256).parent)
            part.publish(final)
        stamp.write(self.stamp(part.sha256), final)
        return final

    def add_bytes(self, data: bytes) -> str:
        """Put bytes that were made here, not downloaded, into the store. Returns their sha256."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._add(sha256, len(data), iter((data,)))
        return sha256

    def add_file(self, path: Path, sha256: str | None = None) -> str:
        """Copy a file into the store and return its sha256. Raises WrongArtifact when it is not the one given."""
        actual = hash_file(path)
        if sha256 not in (None, actual):
            raise WrongArtifact(
                f"{path.name} is not the file it should be", where=path, why=f"it hashes to {actual}, not to {sha256}"
            )
        self._add(actual, path.stat().st_size, read_file(path))
        return actual

    def _add(self, sha256: str, size: int, chunks: Iterator[bytes]) -> None:
        if stamp.holds(self.stamp(sha256), self.path(sha256)):
            return
        with self.part(sha256, size) as part:
            if part is not None:
                with explained(self.root):
                    part.restart()
                    for chunk in chunks:
                        part.write(chunk)
                self.publish(part)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep `prune` away while a build reads from here. A store that can't be written can't be pruned either."""
        try:
            self._make(self.root)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            yield
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def alone(self, cancel: threading.Event | None = None) -> Iterator[None]:
        """Wait until no build uses the store, and keep them out meanwhile."""
        cancel = cancel or threading.Event()
        with explained(self.root):
            self._make(self.root)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if cancel.wait(POLL):
                        raise Cancelled from None
            yield
        finally:
            os.close(descriptor)

    def _make(self, folder: Path) -> None:
        """Create a folder below the root with a mode that the umask does not decide."""
        if folder.is_dir():
            return
        if folder == self.root:
            folder.parent.mkdir(parents=True, exist_ok=True)
        else:
            self._make(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(FOLDER_MODE)


def read_file(path: Path) -> Iterator[bytes]:
    """A file's bytes in large chunks."""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(READ_SIZE):
            yield chunk


def hash_file(path: Path) -> str:
    """sha256 of a file, in hex. Raises OSError."""
    digest = hashlib.sha256()
    buffer = bytearray(READ_SIZE)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(view[:count])
    return digest.hexdigest()
