"""A registry in this process: enough of the distribution specification to push and pull, with faults on request."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Registry(ThreadingHTTPServer):
    """auth: "" for none, "basic", or "bearer". faults: "METHOD what" → statuses answered first; what is blobs, uploads
    or manifests. cut_at: bytes after which an upload's connection is cut, one each for the first ones."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.auth = ""
        self.user, self.password = "me", "secret"
        self.tokens: dict[str, str] = {}
        self.anonymous_pull = False
        self.immutable = False
        self.ranged_uploads = True
        self.faults: dict[str, list[int]] = {}
        self.cut_at: list[int] = []
        self.claims: set[str] = set()
        """Blobs that HEAD says are there, and manifests then can't find."""
        self.elsewhere: Registry | None = None
        """Where uploads and downloads of blobs are sent on to."""
        self.ignores_ranges = False
        self.cut_pulls_at: list[int] = []
        self.altered: set[str] = set()
        """Blobs and manifests, by what they are asked for, that come back with a byte more."""
        self.names_digests = True
        self.referrers_api = False
        self.page = 1
        self.subject_header = False
        self.warning = ""
        self.colour = ""
        """Stands behind every error's message."""
        self.instead = ""
        """`page`: everything is answered with a page of HTML; anything else: redirected to there."""
        self.authorizations: list[str] = []
        self.seen: list[str] = []
        self.received = 0
        self.numbers = itertools.count()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Cut connections are what the tests make."""


class _Handler(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        if self.server.warning:
            self.send_header("Warning", self.server.warning)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, message: str) -> None:
        message += self.server.colour
        body = json.dumps({"errors": [{"code": "X", "message": message}]}).encode()
        self.answer(status, {"Content-Type": "application/json"}, body)

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/token":
            self.token(parse_qs(url.query))
            return
        self.server.authorizations.append(self.headers.get("Authorization", ""))
        match = re.fullmatch(r"/v2/(.+?)/(blobs/uploads|blobs|manifests|referrers)/(.*)", url.path)
        kind = match[2].rpartition("/")[2] if match else "ping"
        self.uploads_at = f"/v2/{match[1]}/blobs/uploads" if match else ""
        key = f"{self.command} {kind}"
        self.server.seen.append(key)
        body = b"" if key == "PATCH uploads" else self.body()
        if self.server.instead == "page":
            self.answer(200, {"Content-Type": "text/html"}, b"<html>log in here</html>")
            return
        if self.server.instead:
            self.answer(302, {"Location": self.server.instead})
            return
        if not self.allowed(match[1] if match else ""):
            return
        if statuses := self.server.faults.get(key):
            if key == "PATCH uploads":
                self.body()
            self.error(statuses.pop(0), "a fault")
        elif match:
            getattr(self, f"{self.command}_{kind}")(match[3], parse_qs(url.query), body)
        else:
            self.answer(200)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = handle_any  # noqa: N815

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def allowed(self, name: str) -> bool:
        sent = self.headers.get("Authorization", "")
        if self.server.auth == "basic":
            if sent == f"Basic {base64.b64encode(b'me:secret').decode()}":
                return True
            self.answer(401, {"WWW-Authenticate": 'Basic realm="here"'})
            return False
        if self.server.auth == "bearer":
            action = "push" if self.command in ("PUT", "POST", "PATCH") else "pull"
            scope = self.server.tokens.get(sent.removeprefix("Bearer "), "")
            if scope.startswith(f"repository:{name}:") and action in scope:
                return True
            realm = f"http://{self.server.host}/token"
            challenge = f'Bearer realm="{realm}",service="fake",scope="repository:{name}:{action}"'
            if self.command == "PATCH":
                self.body()
            self.answer(401, {"WWW-Authenticate": challenge})
            return False
        return True

    def token(self, query: dict[str, list[str]]) -> None:
        self.server.seen.append("token")
        right = f"Basic {base64.b64encode(b'me:secret').decode()}"
        sent, scope = self.headers.get("Authorization", ""), query["scope"][0]
        if sent != right and (sent or "push" in scope or not self.server.anonymous_pull):
            self.error(401, "who are you")
            return
        token = f"t{next(self.server.numbers)}"
        self.server.tokens[token] = scope
        self.answer(200, {"Content-Type": "application/json"}, json.dumps({"token": token}).encode())

    def HEAD_blobs(self, digest: str, _query: object, _body: bytes) -> None:
        blob = self.server.blobs.get(digest)
        there = blob is not None or digest in self.server.claims
        self.answer(200 if there else 404, {"Content-Length": str(len(blob or b""))})

    def GET_blobs(self, digest: str, _query: object, _body: bytes) -> None:
        if self.server.elsewhere:
            self.answer(307, {"Location": f"http://{self.server.elsewhere.host}{self.path}"})
            return
        blob = self.server.blobs.get(digest)
        if blob is not None and digest in self.server.altered:
            blob += b"!"
        if blob is None:
            self.error(404, "blob unknown")
        elif self.server.cut_pulls_at:
            self.cut_pull(blob, self.server.cut_pulls_at.pop(0))
        elif not self.server.ignores_ranges and (match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))):
            start = int(match[1])
            self.answer(206, {"Content-Range": f"bytes {start}-{len(blob) - 1}/{len(blob)}"}, blob[start:])
        else:
            self.answer(200, {}, blob)

    def POST_uploads(self, _what: str, query: dict[str, list[str]], _body: bytes) -> None:
        if (mount := query.get("mount", [""])[0]) and query["from"][0] == "other" and mount in self.server.blobs:
            self.answer(201, {"Location": f"/v2/x/blobs/{mount}"})
            return
        name = f"u{next(self.server.numbers)}"
        (self.server.elsewhere or self.server).uploads[name] = bytearray()
        if self.server.elsewhere:
            self.uploads_at = f"http://{self.server.elsewhere.host}/v2/store/blobs/uploads"
        self.answer(202, {"Location": f"{self.uploads_at}/{name}?state=0"})

    def PATCH_uploads(self, name: str, _query: object, _body: bytes) -> None:
        upload = self.server.uploads.get(name)
        length = int(self.headers["Content-Length"])
        cut = self.server.cut_at.pop(0) if self.server.cut_at else None
        data = self.rfile.read(length if cut is None else min(cut, length))
        if upload is None:
            self.error(404, "upload unknown")
            return
        self.server.received += len(data)
        if match := re.fullmatch(r"(\d+)-(\d+)", self.headers.get("Content-Range", "")):
            if int(match[1]) != len(upload):
                self.error(416, "at another byte")
                return
        elif upload:
            self.error(416, "begun already")
            return
        if self.server.ranged_uploads or cut is None:
            upload += data
        else:
            del self.server.uploads[name]
        if cut is not None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        self.answer(202, {"Location": f"{self.uploads_at}/{name}?state={len(upload)}"})

    def GET_uploads(self, name: str, _query: object, _body: bytes) -> None:
        if (upload := self.server.uploads.get(name)) is None:
            self.error(404, "upload unknown")
            return
        location = f"{self.uploads_at}/{name}?state={len(upload)}"
        self.answer(204, {"Location": location, "Range": f"0-{max(0, len(upload) - 1)}"})

    def PUT_uploads(self, name: str, query: dict[str, list[str]], body: bytes) -> None:
        if name not in self.server.uploads:
            self.error(404, "upload unknown")
            return
        content = bytes(self.server.uploads[name]) + body
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if query["digest"] != [digest]:
            self.error(400, "digest invalid")
            return
        del self.server.uploads[name]
        self.server.blobs[digest] = content
        self.answer(201, {"Docker-Content-Digest": digest})

    def PUT_manifests(self, target: str, _query: object, body: bytes) -> None:
        if self.server.immutable and target in self.server.manifests:
            self.error(400, "tag is immutable")
            return
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if self.server.claims - set(self.server.blobs):
            self.error(404, "blob unknown to registry")
            return
        for name in (target, digest):
            self.server.manifests[name] = (self.headers["Content-Type"], body)
        headers = {"Docker-Content-Digest": digest} if self.server.names_digests else {}
        subject = (json.loads(body) or {}).get("subject") if self.server.subject_header else None
        self.answer(201, {**headers, **({"OCI-Subject": subject["digest"]} if subject else {})})

    def GET_manifests(self, target: str, _query: object, _body: bytes) -> None:
        if target not in self.server.manifests:
            self.error(404, "manifest unknown")
            return
        kind, content = self.server.manifests[target]
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        headers = {"Docker-Content-Digest": digest} if self.server.names_digests else {}
        self.answer(200, {"Content-Type": kind, **headers}, content + b"!" * (target in self.server.altered))

    HEAD_manifests = GET_manifests

    def GET_referrers(self, digest: str, query: dict[str, list[str]], _body: bytes) -> None:
        if not self.server.referrers_api:
            self.error(404, "page not found")
            return
        found = []
        for name, (kind, content) in sorted(self.server.manifests.items()):
            document = json.loads(content)
            if name.startswith("sha256:") and (document.get("subject") or {}).get("digest") == digest:
                descriptor = {"mediaType": kind, "digest": name, "size": len(content)}
                found.append({**descriptor, "artifactType": document.get("artifactType")})
        start = int(query.get("from", ["0"])[0])
        index = {"schemaVersion": 2, "manifests": found[start : start + self.server.page]}
        more = start + self.server.page < len(found)
        link = {"Link": f'<{urlsplit(self.path).path}?from={start + self.server.page}>; rel="next"'} if more else {}
        kind = "application/vnd.oci.image.index.v1+json"
        self.answer(200, {"Content-Type": kind, **link}, json.dumps(index).encode())

    def cut_pull(self, blob: bytes, at: int) -> None:
        """Answer with all that was asked for, and break off before its end."""
        ranged = None if self.server.ignores_ranges else re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        rest = blob[int(ranged[1]) :] if ranged else blob
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[:at])
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


@contextlib.contextmanager
def running() -> Iterator[Registry]:
    """A registry for the length of a test."""
    registry = Registry()
    threading.Thread(target=registry.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield registry
    finally:
        registry.shutdown()
        registry.server_close()
