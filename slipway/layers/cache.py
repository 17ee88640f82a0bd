"""The layer cache: finished blobs on this machine's disk, found by layer key.

    <root>/layers/ab/<key>.tar.zst     the blob
    <root>/layers/ab/<key>.json        its digests, notes, and what the file looked like when it was written
    <root>/layers/ab/<key>.lock        held (flock) by the process that makes it

The JSON file is written last and names the blob's size, mtime_ns and inode: a hit trusts those and reads no bytes.
Where they differ (the cache was copied, a backup restored) the bytes are hashed once. A process killed at any moment
leaves a `.part` file, which nobody looks at and `prune` removes, or a blob without JSON, which is made anew.
Nothing is synced to disk: after a power cut a blob may hold less than it says, and whoever reads it to build, load or
push finds out from the hash (`CachedLayer.checked`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.errors import BuildFailed, MissingError
from slipway.host.replace import write_whole
from slipway.layers.blob import Blob, BlobWriter

Notice = Callable[[str], None]
Seen = tuple[int, int, int]


@dataclass(frozen=True)
class CachedLayer:
    """A finished layer on disk. notes: small facts that its builder left (JSON)."""

    key: str
    blob: Blob
    path: Path
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def checked(self) -> Path:
        """The blob's path after hashing its bytes.

        Raises BuildFailed when they are damaged: the entry is dropped first, so that the next build makes it anew.
        """
        found = _digest(self.path)
        if found == self.blob.digest:
            return self.path
        self.drop()
        raise BuildFailed(
            f"a layer in the cache is damaged: it should be {self.blob.digest}, it is {found}",
            where=self.path,
            why="the image would not be what its manifest says",
            remedy="build again: the layer was removed from the cache and will be made anew",
        )

    def drop(self) -> None:
        """Forget this entry. The blob's other hard links stay."""
        _meta_path(self.path).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


class LayerCache:
    """Layers by key below `root`. Several processes may use one cache at once.

    notice: told, in one line, when an entry turned out to be damaged and is made anew
    """

    def __init__(self, root: Path, notice: Notice | None = None) -> None:
        self.root = root
        self._notice = notice

    def __reduce__(self) -> tuple[type[LayerCache], tuple[Path]]:
        """Worker processes get the folder; notices stay with the process that can show them."""
        return LayerCache, (self.root,)

    def path(self, key: str) -> Path:
        """Where the blob of `key` lies, or would."""
        return self.root / "layers" / key[:2] / f"{key}.tar.zst"

    def get(self, key: str, *, verify: bool = False) -> CachedLayer | None:
        """The layer, or None when it has to be made.

        Trusts (size, mtime_ns, inode) of the blob's file; `verify` hashes the bytes all the same. What is damaged
        counts as absent. Changes nothing but the record of what the file looks like.
        """
        path = self.path(key)
        try:
            document = json.loads(_meta_path(path).read_bytes())
            layer = CachedLayer(key, Blob.from_json(document["blob"]), path, dict(document["notes"]))
            seen = tuple(document["seen"])
            now = _look(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._tell(f"the layer cache's record of {key[:12]} can't be read ({error}): the layer is made anew")
            return None
        if now == seen and now[0] == layer.blob.size and not verify:
            return layer
        if now[0] != layer.blob.size or _digest(path) != layer.blob.digest:
            self._tell(f"cached layer {key[:12]} is damaged: it is made anew")
            return None
        if now != seen:
            with contextlib.suppress(OSError):  # a read-only cache is used as it is
                _write_meta(layer, now)
        return layer

    def build(self, key: str, make: Callable[[BlobWriter], object]) -> CachedLayer:
        """The layer from the cache, else `make` writes it. A second process asking for the same key waits."""
        with self._lock(key):
            if (layer := self.get(key)) is not None:
                return layer
            path = self.path(key)
            _meta_path(path).unlink(missing_ok=True)
            writer = BlobWriter(path)
            try:
                with writer:
                    make(writer)
                return self._finish(key, writer.blob, writer.notes)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                raise MissingError(
                    "the disk is full",
                    where=self.root,
                    why="the layer that was being written is not finished; nothing of it is left in the cache",
                    remedy="free space there, or name a folder on another disk with --cache or SLIPWAY_CACHE",
                ) from error

    def adopt(self, key: str, file: Path, blob: Blob, notes: Mapping[str, Any] | None = None) -> CachedLayer:
        """Take a finished blob that came from elsewhere (a registry): `file` is moved in, its bytes hashed before.

        Raises BuildFailed when they are not `blob`'s. That key and blob belong together is the caller's word.
        """
        if (found := _digest(file)) != blob.digest:
            raise BuildFailed(
                f"a layer that was handed in is not what it should be: {found} instead of {blob.digest}", where=file
            )
        with self._lock(key):
            path = self.path(key)
            _meta_path(path).unlink(missing_ok=True)
            file.replace(path)
            return self._finish(key, blob, notes or {})

    def prune(self, keep: Collection[str]) -> int:
        """Remove all layers but those whose keys are in `keep`, and what killed processes left. Bytes freed.

        Layers that are being made right now stay.
        """
        freed = 0
        for folder in sorted(self.root.glob("layers/??")):
            names = sorted(entry.name for entry in os.scandir(folder))
            for key in sorted({name.partition(".")[0] for name in names} - set(keep)):
                try:
                    with self._lock(key, wait=False):
                        files = [folder / name for name in names if name.startswith(f"{key}.")]
                        freed += sum(_remove(file) for file in sorted(files, key=lambda file: file.suffix != ".json"))
                        (folder / f"{key}.lock").unlink(missing_ok=True)
                except BlockingIOError:
                    continue
            for part in folder.glob("*.part"):
                with contextlib.suppress(BlockingIOError), self._lock(part.name.partition(".")[0], wait=False):
                    freed += _remove(part)
        return freed

    def _finish(self, key: str, blob: Blob | None, notes: Mapping[str, Any]) -> CachedLayer:
        if blob is None:
            raise BuildFailed("the layer was not finished", where=self.path(key))
        layer = CachedLayer(key, blob, self.path(key), dict(notes))
        _write_meta(layer, _look(layer.path))
        return layer

    @contextlib.contextmanager
    def _lock(self, key: str, *, wait: bool = True) -> Iterator[None]:
        """One process at a time for `key`. Raises BlockingIOError where it is taken and `wait` is False."""
        file = self.path(key).with_name(f"{key}.lock")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            while True:
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                    if _same_file(descriptor, file):
                        break
                except BaseException:
                    os.close(descriptor)
                    raise
                os.close(descriptor)  # prune removed it between open and flock
        except (PermissionError, NotADirectoryError) as error:
            raise MissingError(
                f"the layer cache can't be written: {error.strerror}",
                where=self.root,
                remedy="name a folder of yours with --cache or SLIPWAY_CACHE",
            ) from error
        try:
            yield
        finally:
            os.close(descriptor)

    def _tell(self, text: str) -> None:
        if self._notice is not None:
            self._notice(text)


def _meta_path(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".tar.zst") + ".json")


def _look(path: Path) -> Seen:
    info = path.stat()
    return info.st_size, info.st_mtime_ns, info.st_ino


def _write_meta(layer: CachedLayer, seen: Seen) -> None:
    meta = _meta_path(layer.path)
    document = {"blob": layer.blob.as_json(), "notes": layer.notes, "seen": seen}
    write_whole(meta, json.dumps(document, sort_keys=True).encode())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        mine, there = os.fstat(descriptor), path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _remove(file: Path) -> int:
    """Bytes that removing `file` freed: none where another hard link keeps them."""
    try:
        info = file.stat()
        file.unlink()
    except FileNotFoundError:
        return 0
    return info.st_size if info.st_nlink == 1 else 0
