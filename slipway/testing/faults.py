"""A proxy in front of a registry that does what networks and registries do to pushes."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = 1 << 16


@dataclass(frozen=True)
class Fault:
    """What goes wrong, once.

    cut     the connection is reset after `at` bytes of request bodies
    lost    request `at` reaches the registry, its answer does not come back
    reset   request `at` is not even passed on
    status  request `at` is answered `status`, 429 with Retry-After
    flip    byte `at` of the request bodies is changed on its way
    lies    the answer to request `at`, or to the next one that names a digest, names another
    says    request `at`, or the next that asks for a blob, is told that the blob is there
    slow    request `at` takes SLOW seconds
    call    `call` is called after `at` bytes of request bodies, e.g. to kill the client
    """

    kind: str
    at: int
    status: int = 0
    call: Callable[[], None] | None = None


SLOW = 2.0


class FaultyProxy(ThreadingHTTPServer):
    """Passes everything on to the registry at `target`. sent: bytes of request bodies that were passed on."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: int, fault: Fault | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.fault = fault
        self.fired = False
        self.sent = 0
        self.requests = 0
        self.uploads: dict[str, int] = {}
        """Bodies of uploads by the upload's path: how many bytes were passed on."""
        self.lock = threading.Lock()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def count_request(self) -> int:
        with self.lock:
            self.requests += 1
            return self.requests - 1

    def fires(self, kind: str, position: int, length: int = 1) -> Fault | None:
        """The fault, if it is of this kind and due among `length` units from `position` on; only once."""
        with self.lock:
            fault = self.fault
            if fault is None or self.fired or fault.kind != kind or position + length <= fault.at:
                return None
            self.fired = True
            return fault

    def handle_error(self, request: object, client_address: object) -> None:
        """Cut connections are what this is for."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultyProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)
            self.connection.close()

    def _any(self) -> None:
        number = self.server.count_request()
        if self.server.fires("reset", number):
            self._cut()
            return
        if fault := self.server.fires("status", number):
            self._drain()
            self._answer(fault.status, {"Retry-After": "1"} if fault.status == 429 else {}, b"")
            return
        if self.command == "HEAD" and "/blobs/" in self.path and self.server.fires("says", number):
            self._answer(200, {"Content-Length": "0"}, b"")
            return
        if self.server.fires("slow", number):
            time.sleep(SLOW)
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            length = int(self.headers.get("Content-Length", 0))
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                upstream.putheader(name, value)
            upstream.endheaders()
            if not self._pass_body(upstream, length):
                return
            answer = upstream.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self._cut()
            return
        finally:
            upstream.close()
        if self.server.fires("lost", number):
            self._cut()
            return
        passed = {name: value for name, value in answer.getheaders() if name.lower() not in ("connection", "date")}
        if "Docker-Content-Digest" in passed and self.server.fires("lies", number):
            passed["Docker-Content-Digest"] = "sha256:" + "0" * 64
        self._answer(answer.status, passed, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _any  # noqa: N815

    def _pass_body(self, upstream: http.client.HTTPConnection, left: int) -> bool:
        while left:
            data = self.rfile.read1(min(left, PIECE))
            if not data:
                self._cut()
                return False
            position = self.server.sent
            if fault := self.server.fires("cut", position, len(data)):
                upstream.send(data[: max(fault.at - position, 0)])
                self._cut()
                return False
            if fault := self.server.fires("flip", position, len(data)):
                index = min(max(fault.at - position, 0), len(data) - 1)
                data = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
            if (fault := self.server.fires("call", position, len(data))) and fault.call:
                fault.call()
            upstream.send(data)
            with self.server.lock:
                self.server.sent += len(data)
                if self.command == "PATCH":
                    name = self.path.partition("?")[0]
                    self.server.uploads[name] = self.server.uploads.get(name, 0) + len(data)
            left -= len(data)
        return True

    def _drain(self) -> None:
        left = int(self.headers.get("Content-Length", 0))
        while left and (data := self.rfile.read1(min(left, PIECE))):
            left -= len(data)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        with contextlib.suppress(OSError):
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if not any(name.lower() == "content-length" for name in headers) and status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)


@contextlib.contextmanager
def faulty(target: int, fault: Fault | None = None) -> Iterator[FaultyProxy]:
    """A proxy for the length of a test."""
    server = FaultyProxy(target, fault)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
