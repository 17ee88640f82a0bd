"""A small HTTP server on this machine that hands out bytes and misbehaves on request."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class File:
    """What an address answers.

    statuses:   answered, one each, before the content is (with Retry-After where retry_after is set)
    break_at:   bytes after which the connection is cut, one each for the first answers
    announce:   another Content-Length than the true one; None: the true one; 0: none at all, then the server hangs up
    chunk, pause: bytes and seconds of slow sending
    """

    content: bytes
    content_type: str = "application/octet-stream"
    statuses: list[int] = field(default_factory=list)
    retry_after: str = ""
    break_at: list[int] = field(default_factory=list)
    ranges: bool = True
    announce: int | None = None
    location: str = ""
    chunked: bool = False
    login: str = ""
    pause: float = 0.0
    chunk: int = 1 << 16


class Server(ThreadingHTTPServer):
    """`files` by path; `seen` is what was asked for: method, path, Range."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, File] = {}
        self.seen: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, path: str, content: bytes, **faults: object) -> File:
        self.files[path] = File(content, **faults)  # type: ignore[arg-type]
        return self.files[path]

    def asked(self, path: str) -> list[str]:
        """The Range headers of the requests for one path."""
        return [ranged for method, seen, ranged in self.seen if seen == path and method == "GET"]

    def handle_error(self, request: object, client_address: object) -> None:
        """Broken connections are what the tests make."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.seen.append((self.command, path, self.headers.get("Range", "")))
        self.server.headers.append(dict(self.headers))
        file = self.server.files.get(path)
        if file is None:
            self._short(404)
        elif file.login and self.headers.get("Authorization") != file.login:
            self._short(401)
        elif file.statuses:
            self._short(file.statuses.pop(0), file.retry_after)
        elif file.location:
            self.send_response(302)
            self.send_header("Location", file.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._content(file)

    def _short(self, status: int, retry_after: str = "") -> None:
        self.send_response(status)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _content(self, file: File) -> None:
        start = 0
        if file.ranges and (match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))):
            start = int(match[1])
            if start >= len(file.content):
                self._short(416)
                return
        body = file.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(file.content) - 1}/{len(file.content)}")
        if file.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif file.announce != 0:
            self.send_header("Content-Length", str(len(body) if file.announce is None else file.announce))
        else:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.send_header("Content-Type", file.content_type)
        self.end_headers()
        if file.chunked:
            for begin in range(0, len(body), file.chunk):
                piece = body[begin : begin + file.chunk]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        cut = file.break_at.pop(0) if file.break_at else None
        self._send(body if cut is None else body[:cut], file)
        if cut is not None:
            self._reset()

    def _send(self, body: bytes, file: File) -> None:
        for begin in range(0, len(body), file.chunk):
            self.wfile.write(body[begin : begin + file.chunk])
            if file.pause:
                threading.Event().wait(file.pause)

    def _reset(self) -> None:
        """Cut the connection hard: what was sent has arrived, then comes a reset."""
        self.wfile.flush()
        threading.Event().wait(0.02)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A server for the length of a test."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
