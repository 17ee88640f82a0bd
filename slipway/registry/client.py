"""One repository of a registry: look up, pull and push blobs and manifests.

Errors are those of slipway.sources.outcome; callers turn them into what their user reads (a pull into exit 3 or 4, a
push into exit 5).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urljoin

from urllib3.exceptions import HTTPError as TransportError

from slipway.registry.auth import Access
from slipway.registry.login import find_login
from slipway.registry.reference import Reference
from slipway.sources.address import origin, redact
from slipway.sources.http import READ_SIZE, Http, Response, Tries
from slipway.sources.outcome import Absent, Cancelled, Unreachable, WrongBytes

MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_LIMIT = 4 << 20
"""Bytes of the longest manifest that a registry has to take (distribution specification)."""

Moved = Callable[[int], None]
MakeBody = Callable[[], bytes | Iterator[bytes]]


@dataclass(frozen=True)
class Upload:
    """Bytes to push: `content` of a file or bytes at hand. digest is `sha256:…`, size in bytes."""

    digest: str
    size: int
    content: Path | bytes

    @classmethod
    def of(cls, data: bytes) -> Upload:
        """Bytes at hand."""
        return cls(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data), data)

    def chunks(self, start: int) -> Iterator[bytes]:
        """The bytes from `start` on."""
        if isinstance(self.content, bytes):
            yield self.content[start:]
            return
        with self.content.open("rb", buffering=0) as file:
            file.seek(start)
            while chunk := file.read(READ_SIZE):
                yield chunk


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry has it."""

    content: bytes
    media_type: str
    digest: str


class Repository:
    """Talks to one repository. Threads share it."""

    def __init__(self, reference: Reference, http: Http, environ: Mapping[str, str] | None = None) -> None:
        self.reference = reference
        self.http = http
        self._access = Access(http, lambda: find_login(reference.host, environ))
        self._greeted = False

    # Pull

    def blob_address(self, digest: str) -> str:
        """Where a blob lies."""
        return f"{self._root}/blobs/{digest}"

    def pull_headers(self) -> dict[str, str]:
        """What a download of a blob has to send along. Asks the registry once what it wants."""
        if not self._greeted:
            # A blob that is not there: an unauthorized client is told how to log in before it is told that.
            self.blob_size(Upload.of(b"").digest)
            self._greeted = True
        return self._access.headers(self._pull)

    def blob_size(self, digest: str, *, pushing: bool = False) -> int | None:
        """The size in bytes of a blob that is there; None where it is not."""
        try:
            response = self._request("HEAD", self.blob_address(digest), self._push if pushing else self._pull)
        except Absent:
            return None
        length = response.headers.get("Content-Length", "")
        return int(length) if length.isdigit() else 0

    def manifest(self, target: str | None = None) -> Manifest:
        """A manifest by tag or digest (the reference's own). Raises WrongBytes when it is not what the digest says."""
        wanted = target or self.reference.target
        url = f"{self._root}/manifests/{wanted}"
        response = self._request("GET", url, self._pull, {"Accept": ", ".join(MANIFEST_TYPES)}, keep_body=True)
        try:
            content = response.read(MANIFEST_LIMIT + 1)
        except TransportError as error:
            raise Unreachable(redact(url), str(error)) from error
        finally:
            response.close()
        if len(content) > MANIFEST_LIMIT:
            raise WrongBytes(redact(url), f"a manifest of more than {MANIFEST_LIMIT} bytes")
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if wanted.startswith("sha256:") and digest != wanted:
            raise WrongBytes(redact(url), "other bytes", digest.removeprefix("sha256:"))
        return Manifest(content, response.headers.get("Content-Type", "").partition(";")[0], digest)

    def manifest_digest(self, target: str) -> str | None:
        """The digest that a tag has now; None where there is no such tag."""
        headers = {"Accept": ", ".join(MANIFEST_TYPES)}
        try:
            response = self._request("HEAD", f"{self._root}/manifests/{target}", self._push, headers)
        except Absent:
            return None
        return response.headers.get("Docker-Content-Digest")

    # Push

    def put_manifest(self, content: bytes, media_type: str, target: str | None = None) -> str:
        """Push a manifest under a tag (or its digest) and return its digest. One that is there already is success:
        registries with immutable tags refuse to take the same one twice."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        target = target or self.reference.tag or digest
        if self.manifest_digest(target) != digest:
            url = f"{self._root}/manifests/{target}"
            self._request("PUT", url, self._push, {"Content-Type": media_type}, lambda: content)
        return digest

    def push_blob(self, upload: Upload, moved: Moved = lambda _count: None, mount_from: str = "") -> bool:
        """Push a blob unless it is there. True when bytes were sent.

        A broken connection is taken up at the byte that the registry has. mount_from names a repository of the same
        registry from which the blob is taken over where that is possible.
        """
        if self.blob_size(upload.digest, pushing=True) is not None:
            moved(upload.size)
            return False
        location = self._begin(upload, mount_from)
        if not location:
            moved(upload.size)
            return False
        tries = self.http.tries(self._root)
        done = sent = 0

        def body() -> Iterator[bytes]:
            nonlocal sent
            for chunk in upload.chunks(done):
                if self.http.cancel.is_set():
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
        try:
            self._request("PUT", _with(location, digest=upload.digest), self._push, {"Content-Length": "0"})
        except Absent:
            # An upload that was closed by an earlier try whose answer got lost is not known any more.
            if self.blob_size(upload.digest, pushing=True) is None:
                raise

    def _begin(self, upload: Upload, mount_from: str) -> str:
        """Open an upload and return where to send it; "" when the registry took the blob from `mount_from`."""
        url = f"{self._root}/blobs/uploads/"
        if mount_from:
            url = _with(url, mount=upload.digest, **{"from": mount_from})
        response = self._request("POST", url, self._push, {"Content-Length": "0"})
        return "" if response.status == 201 else self._location(response, url)

    def _append(self, location: str, body: Iterator[bytes], start: int, size: int, tries: Tries) -> str | None:
        """Send all bytes from `start` on in one request. None when it has to be taken up again."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size - start)}
        if start:
            headers["Content-Range"] = f"{start}-{size - 1}"
        headers |= self._headers(location, self._push)
        try:
            response = self.http.send("PATCH", location, headers=headers, body=body, redirect=False)
        except TransportError as error:
            tries.broken(error)
            return None
        if response.status == 401 and self._access.challenged(response, self._push):
            response.drain_conn()
            tries.failed("the login ran out during the upload")
        elif response.status in (404, 416):  # forgotten, or at another byte than we thought
            response.drain_conn()
            tries.failed(f"answered {response.status} to an upload")
        elif not tries.wants_again(response):
            response.drain_conn()
            return self._location(response, location)
        return None

    def _where_was_i(self, location: str, upload: Upload) -> tuple[str, int]:
        """How many bytes of an upload the registry has; a new upload where it has forgotten the old one."""
        try:
            response = self._request("GET", location, self._push)
        except Absent:
            return self._begin(upload, ""), 0
        match = re.fullmatch(r"(?:bytes=)?0-(\d+)", response.headers.get("Range", "").strip())
        # "0-0" is what registries answer both for no byte and for one.
        reached = int(match[1]) + 1 if match and match[1] != "0" else 0
        if reached > upload.size or reached == 0:
            return self._begin(upload, ""), 0
        return self._location(response, location), reached

    # Requests

    @property
    def _root(self) -> str:
        return f"{self.reference.base}/{self.reference.name}"

    @property
    def _pull(self) -> str:
        return f"repository:{self.reference.name}:pull"

    @property
    def _push(self) -> str:
        return f"repository:{self.reference.name}:pull,push"

    def _headers(self, url: str, scope: str) -> dict[str, str]:
        """Authorization, for the registry itself alone: uploads may be sent to other servers."""
        return self._access.headers(scope) if origin(url) == origin(self.reference.base) else {}

    def _location(self, response: Response, url: str) -> str:
        location = response.headers.get("Location", "")
        return urljoin(url, location) if location else url

    def _request(
        self,
        method: str,
        url: str,
        scope: str,
        headers: Mapping[str, str] | None = None,
        make_body: MakeBody | None = None,
        *,
        keep_body: bool = False,
    ) -> Response:
        """A request with a small body or none, with retries. Raises Absent, Refused, Unreachable."""
        tries = self.http.tries(url)
        response = self._call(method, url, scope, tries, headers, make_body)
        tries.succeeded()
        if not keep_body:
            response.drain_conn()
        return response

    def _call(
        self,
        method: str,
        url: str,
        scope: str,
        tries: Tries,
        headers: Mapping[str, str] | None = None,
        make_body: MakeBody | None = None,
    ) -> Response:
        challenged = False
        while True:
            sent = {**(headers or {}), **self._headers(url, scope)}
            try:
                body = make_body() if make_body else None
                response = self.http.send(method, url, headers=sent, body=body, redirect=method in ("GET", "HEAD"))
            except TransportError as error:
                tries.broken(error)
                continue
            if response.status == 401 and not challenged and self._access.challenged(response, scope):
                challenged = True
                response.drain_conn()
                continue
            if not tries.wants_again(response):
                return response


def _with(url: str, **query: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
