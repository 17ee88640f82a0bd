"""A folder of artifacts that somebody carried here (`fetch --from DIR`): found by name, by hash as name, or by hash."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from slipway.errors import MissingError
from slipway.lock.model import Artifact
from slipway.sources.origin import Offer, Place


class Folder:
    """All files below a folder, listed once on first use. Symlinks to files are followed, to folders not."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise MissingError(f"{root} is not a folder", where=root, remedy="name the folder with --from DIR")
        self.name = f"folder {root}"
        self._root = root
        self._lock = threading.Lock()
        self._by_name: dict[str, list[Path]] | None = None
        self._by_size: dict[int, list[Path]] = {}
        self._hashes: dict[Path, str] = {}

    def places(self, artifact: Artifact) -> Iterator[Place]:
        by_name = self._listed()
        first = dict.fromkeys((*by_name.get(artifact.file, ()), *by_name.get(artifact.sha256, ())))
        for path in sorted(first, key=lambda path: self._size(path) != artifact.size):
            yield Place(str(path), path=path)
        for path in self._by_size.get(artifact.size, ()):
            if path not in first and self._hash(path) == artifact.sha256:
                yield Place(str(path), path=path, guess=True)

    def offered(self, artifact: Artifact) -> list[Offer]:
        return []

    def _listed(self) -> dict[str, list[Path]]:
        with self._lock:
            if self._by_name is None:
                self._by_name = {}
                for folder, folders, files in os.walk(self._root):
                    folders.sort()
                    for file in sorted(files):
                        path = Path(folder, file)
                        self._by_name.setdefault(unquote(file), []).append(path)
                        self._by_size.setdefault(self._size(path), []).append(path)
            return self._by_name

    def _hash(self, path: Path) -> str:
        """The sha256 of a file under another name, taken once; "" where it can't be read."""
        if path not in self._hashes:
            try:
                with path.open("rb") as file:
                    self._hashes[path] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:
                self._hashes[path] = ""
        return self._hashes[path]

    def _size(self, path: Path) -> int:
        try:
            return path.stat().st_size
        except OSError:
            return -1
