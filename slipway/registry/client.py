"""One repository of a registry: look up, pull and push blobs and manifests.

Errors are those of slipway.sources.outcome; callers turn them into what their user reads (a pull into exit 3 or 4, a
push into exit 5).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from urllib3.exceptions import HTTPError as TransportError

from slipway.registry.auth import Access
from slipway.registry.login import Login, find_login
from slipway.registry.reference import Reference
from slipway.registry.upload import Moved, Upload, Uploader
from slipway.sources.address import origin, redact
from slipway.sources.http import Http
from slipway.sources.outcome import Absent, Unreachable, WrongBytes
from slipway.sources.tries import Response, Tries

MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_LIMIT = 4 << 20
"""Bytes of the longest manifest that a registry has to take (distribution specification)."""

WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
"""The only kind of warning that the specification knows."""

MakeBody = Callable[[], bytes | Iterator[bytes]]


@dataclass(frozen=True)
class Manifest:
    """A manifest as the registry has it."""

    content: bytes
    media_type: str
    digest: str


class Repository:
    """Talks to one repository. Threads share it."""

    def __init__(
        self,
        reference: Reference,
        http: Http,
        environ: Mapping[str, str] | None = None,
        find: Callable[[], Login | None] | None = None,
    ) -> None:
        """find: who we are to the registry; by default what docker's configuration says."""
        self.reference = reference
        self.http = http
        self.access = Access(http, find or (lambda: find_login(reference.host, environ)))
        self._greeted = False
        self._warned: set[str] = set()

    def blob_address(self, digest: str) -> str:
        """Where a blob lies."""
        return f"{self.root}/blobs/{digest}"

    def pull_headers(self) -> dict[str, str]:
        """What a download of a blob has to send along. Asks the registry once what it wants."""
        if not self._greeted:
            # A blob that is not there: an unauthorized client is told how to log in before it is told that.
            self.blob_size(Upload.of(b"").digest)
            self._greeted = True
        return self.access.headers(self.pull_scope)

    def blob_size(self, digest: str, *, pushing: bool = False) -> int | None:
        """The size in bytes of a blob that is there; None where it is not."""
        try:
            response = self.request("HEAD", self.blob_address(digest), self.push_scope if pushing else self.pull_scope)
        except Absent:
            return None
        length = response.headers.get("Content-Length", "")
        return int(length) if length.isdigit() else 0

    def manifest(self, target: str | None = None) -> Manifest:
        """A manifest by tag or digest (the reference's own). Raises WrongBytes when it is not what the digest says."""
        wanted = target or self.reference.target
        url = f"{self.root}/manifests/{wanted}"
        response = self.request("GET", url, self.pull_scope, {"Accept": ", ".join(MANIFEST_TYPES)}, keep_body=True)
        try:
            content = response.read(MANIFEST_LIMIT + 1)
        except TransportError as error:
            raise Unreachable(redact(url), str(error)) from error
        finally:
            response.close()
        if len(content) > MANIFEST_LIMIT:
            raise WrongBytes(redact(url), f"a manifest of more than {MANIFEST_LIMIT} bytes")
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        named = response.headers.get("Docker-Content-Digest", "")
        for right in (wanted, named):  # what was asked for counts; a tag's digest is only named by the registry
            if right.startswith("sha256:") and digest != right:
                raise WrongBytes(redact(url), f"other bytes than those of {right}", digest.removeprefix("sha256:"))
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if not _is_object(content):
            raise Unreachable(redact(url), f"gave no manifest but {kind or 'something else'}: is this a registry?")
        return Manifest(content, kind, digest)

    def blob(self, digest: str, limit: int = 64 << 20) -> bytes:
        """A small blob's bytes, checked. Raises WrongBytes for others than the digest says."""
        url = self.blob_address(digest)
        response = self.request("GET", url, self.pull_scope, keep_body=True)
        try:
            content = response.read(limit + 1)
        except TransportError as error:
            raise Unreachable(redact(url), str(error)) from error
        finally:
            response.close()
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if found != digest:
            raise WrongBytes(redact(url), "other bytes", found.removeprefix("sha256:"))
        return content

    def manifest_digest(self, target: str) -> str | None:
        """The digest that a tag has now; None where there is no such tag."""
        headers = {"Accept": ", ".join(MANIFEST_TYPES)}
        try:
            response = self.request("HEAD", f"{self.root}/manifests/{target}", self.push_scope, headers)
        except Absent:
            return None
        digest = response.headers.get("Docker-Content-Digest")
        return digest or self.manifest(target).digest  # the header is optional

    def has_manifest(self, target: str) -> bool:
        """Whether there is a manifest of this tag or digest."""
        return self.manifest_digest(target) is not None

    def push_blob(
        self, upload: Upload, moved: Moved = lambda _count: None, mount_from: str = "", *, anew: bool = False
    ) -> bool:
        """Push a blob unless it is there; see Uploader.push."""
        return Uploader(self).push(upload, moved, mount_from, anew=anew)

    def put_manifest(self, content: bytes, media_type: str, target: str | None = None, *, anew: bool = False) -> str:
        """Push a manifest under a tag (or its digest) and return its digest. One that is there already is success:
        registries with immutable tags refuse to take the same one twice.

        anew: send it although it may be there. Raises WrongBytes when the registry took something else for it."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        target = target or self.reference.tag or digest
        if anew or self.manifest_digest(target) != digest:
            self.send_manifest(content, media_type, target)
        return digest

    def send_manifest(self, content: bytes, media_type: str, target: str) -> Response:
        """Push a manifest without looking first. Raises WrongBytes when the registry took something else for it."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        url = f"{self.root}/manifests/{target}"
        response = self.request("PUT", url, self.push_scope, {"Content-Type": media_type}, lambda: content)
        confirm(response, url, digest)
        return response

    @property
    def root(self) -> str:
        """The address below which the repository's blobs and manifests lie."""
        return f"{self.reference.base}/{self.reference.name}"

    @property
    def pull_scope(self) -> str:
        """What a token has to allow to read (https://distribution.github.io/distribution/spec/auth/scope/)."""
        return f"repository:{self.reference.name}:pull"

    @property
    def push_scope(self) -> str:
        """What a token has to allow to read and write."""
        return f"repository:{self.reference.name}:pull,push"

    def headers(self, url: str, scope: str) -> dict[str, str]:
        """Authorization, for the registry itself alone: uploads may be sent to other servers."""
        return self.access.headers(scope) if origin(url) == origin(self.reference.base) else {}

    def request(
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
            sent = {**(headers or {}), **self.headers(url, scope)}
            try:
                body = make_body() if make_body else None
                response = self.http.send(method, url, headers=sent, body=body, redirect=method in ("GET", "HEAD"))
            except TransportError as error:
                tries.broken(error)
                continue
            if response.status == 401 and not challenged and self.access.challenged(response, scope, sent):
                challenged = True
                response.drain_conn()
                continue
            self._warn(response)
            if not tries.wants_again(response):
                return response

    def _warn(self, response: Response) -> None:
        """Pass on what the registry wants its users to know (the specification's "Warnings"), each text once."""
        for match in WARNING.finditer(response.headers.get("Warning", "")):
            text = "".join(filter(str.isprintable, match[1].replace('\\"', '"')))[:300]
            if text not in self._warned:
                self._warned.add(text)
                self.http.notify(f"{self.reference.host} says: {text}")


def _is_object(content: bytes) -> bool:
    """Whether these bytes are a JSON object, as every manifest is."""
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False


def confirm(response: Response, url: str, digest: str) -> None:
    """Raise WrongBytes when the answer to a push names another digest than that of what was sent."""
    named = response.headers.get("Docker-Content-Digest", digest)
    if named != digest:
        raise WrongBytes(redact(url), f"the registry calls {digest} {named}", named.removeprefix("sha256:"))
