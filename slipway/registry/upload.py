"""Pushes blobs: looked for first, taken over from another repository where possible, sent in one request, and taken up
again at the byte that the registry has when the connection breaks (distribution specification, "Pushing blobs").

Docker sends blobs the same way, so every registry takes them so; a chunk size would be one more thing to disagree on.
The registry of Debian 12 (distribution 2.8) forgets an upload whose connection broke: such a blob is sent anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin

from urllib3.exceptions import HTTPError as TransportError

from slipway.sources.address import redact
from slipway.sources.http import READ_SIZE
from slipway.sources.outcome import Absent, Cancelled, WrongBytes
from slipway.sources.tries import Response, Tries

if TYPE_CHECKING:
    from slipway.registry.client import Repository

Moved = Callable[[int], None]


@dataclass(frozen=True)
class Upload:
    """Bytes to push: at hand, or those of a file that is named, and may be checked, only when they have to be sent.

    digest is `sha256:…`, size in bytes.
    """

    digest: str
    size: int
    content: bytes | Path | Callable[[], Path]

    @classmethod
    def of(cls, data: bytes) -> Upload:
        """Bytes at hand."""
        return cls(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)

    def chunks(self, start: int) -> Iterator[bytes]:
        """The bytes from `start` on."""
        if isinstance(self.content, bytes):
            yield self.content[start:]
            return
        path = self.content if isinstance(self.content, Path) else self.content()
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            while chunk := file.read(READ_SIZE):
                yield chunk


class Uploader:
    """Pushes blobs to one repository. Threads share it."""

    def __init__(self, repository: Repository) -> None:
        self._to = repository

    def push(
        self, upload: Upload, moved: Moved = lambda _count: None, mount_from: str = "", *, anew: bool = False
    ) -> bool:
        """Push a blob unless it is there. True when bytes were sent. anew: send it even so.

        A broken connection is taken up at the byte that the registry has. mount_from names a repository of the same
        registry from which the blob is taken over where that is possible.
        """
        there = None if anew else self._to.blob_size(upload.digest, pushing=True)
        if there is not None and there in (0, upload.size):  # 0: the registry does not say
            moved(upload.size)
            return False
        location = self._begin(upload, mount_from)
        if not location:
            moved(upload.size)
            return False
        tries = self._to.http.tries(self._to.root)
        done = sent = 0

        def body() -> Iterator[bytes]:
            nonlocal sent
            for chunk in upload.chunks(done):
                if self._to.http.cancel.is_set():
                    raise Cancelled
                yield chunk
                sent += len(chunk)
                moved(len(chunk))

        while done < upload.size:
            sent = done
            if (following := self._append(location, body(), done, upload.size, tries)) is not None:
                location = following
                break
            location, done = self._where_was_i(location, upload)
            tries.reached(done)
            moved(done - sent)
        self._finish(location, upload)
        return True

    def _finish(self, location: str, upload: Upload) -> None:
        url = _with(location, digest=upload.digest)
        try:
            response = self._to.request("PUT", url, self._to.push_scope, {"Content-Length": "0"})
            named = response.headers.get("Docker-Content-Digest", upload.digest)
            if named != upload.digest:
                raise WrongBytes(redact(self._to.root), f"the registry calls {upload.digest} {named}")
        except Absent:
            # An upload that was closed by an earlier try whose answer got lost is not known any more.
            if self._to.blob_size(upload.digest, pushing=True) is None:
                raise

    def _begin(self, upload: Upload, mount_from: str) -> str:
        """Open an upload and return where to send it; "" when the registry took the blob from `mount_from`."""
        url = f"{self._to.root}/blobs/uploads/"
        if mount_from:
            url = _with(url, mount=upload.digest, **{"from": mount_from})
        response = self._to.request("POST", url, self._to.push_scope, {"Content-Length": "0"})
        return "" if response.status == 201 else _location(response, url)

    def _append(self, location: str, body: Iterator[bytes], start: int, size: int, tries: Tries) -> str | None:
        """Send all bytes from `start` on in one request. None when it has to be taken up again."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size - start)}
        if start:
            headers["Content-Range"] = f"{start}-{size - 1}"
        headers |= self._to.headers(location, self._to.push_scope)
        try:
            response = self._to.http.send("PATCH", location, headers=headers, body=body, redirect=False)
        except TransportError as error:
            tries.broken(error)
            return None
        if response.status == 401 and self._to.access.challenged(response, self._to.push_scope, headers):
            response.drain_conn()
            tries.failed("the login ran out during the upload")
        elif response.status in (404, 416):  # forgotten, or at another byte than we thought
            response.drain_conn()
            tries.failed(f"answered {response.status} to an upload")
        elif not tries.wants_again(response):
            response.drain_conn()
            return _location(response, location)
        return None

    def _where_was_i(self, location: str, upload: Upload) -> tuple[str, int]:
        """How many bytes of an upload the registry has; a new upload where it has forgotten the old one."""
        try:
            response = self._to.request("GET", location, self._to.push_scope)
        except Absent:
            return self._begin(upload, ""), 0
        match = re.fullmatch(r"(?:bytes=)?0-(\d+)", response.headers.get("Range", "").strip())
        # "0-0" is what registries answer both for no byte and for one.
        reached = int(match[1]) + 1 if match and match[1] != "0" else 0
        if reached > upload.size or reached == 0:
            return self._begin(upload, ""), 0
        return _location(response, location), reached


def _location(response: Response, url: str) -> str:
    """Where an upload goes on: registries may move it with every answer."""
    location = response.headers.get("Location", "")
    return urljoin(url, location) if location else url


def _with(url: str, **query: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
