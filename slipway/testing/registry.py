"""Real registries for tests and benchmarks: Debian's docker-registry, plain, with passwords, or with tokens."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from slipway.errors import MissingError
from slipway.host import apt, process
from slipway.host.packages import Tool

TOOL = Tool("docker-registry", "docker-registry", "pushes are tested against a real registry")
Auth = Literal["", "htpasswd", "token"]
USER, PASSWORD = "me", "secret"
LEEWAY = 60
"""Seconds that docker-registry takes a token for after its end."""

_CONFIG = """version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}", host: "{host}", relativeurls: true}}
{auth}
"""


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def registry(folder: Path, auth: Auth = "", *, token_seconds: float = 300.0) -> Iterator[int]:
    """The port of a registry that is empty (or has what an earlier one left in `folder`) and stops at the end.

    token_seconds: how long a token is good for; the server says 300, whatever it is."""
    apt.ensure([TOOL])
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with contextlib.ExitStack() as stack:
        more = ""
        if auth == "htpasswd":
            apt.ensure([Tool("htpasswd", "apache2-utils", "it makes the registry's password file")])
            line = process.run(["htpasswd", "-nbB", USER, PASSWORD]).out
            (folder / "htpasswd").write_text(line)
            more = f"auth: {{htpasswd: {{realm: here, path: {folder / 'htpasswd'}}}}}"
        elif auth == "token":
            tokens = stack.enter_context(token_server(folder, token_seconds))
            more = (
                f"auth: {{token: {{realm: 'http://127.0.0.1:{tokens.port}/token', service: test, issuer: test, "
                f"rootcertbundle: {folder / 'token.crt'}}}}}"
            )
        config = folder / "config.yml"
        config.write_text(_CONFIG.format(folder=folder / "data", port=port, host="", auth=more))
        program = shutil.which("docker-registry", path=process.search_path()) or "docker-registry"
        server = subprocess.Popen([program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(_end, server)
        _wait(server, port)
        yield port


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    server.wait(10)


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None or time.monotonic() > until:
                raise MissingError("docker-registry does not start", where=f"port {port}") from None
            time.sleep(0.05)


class Tokens(ThreadingHTTPServer):
    """Gives tokens by https://distribution.github.io/distribution/spec/auth/jwt/ to whoever has the password."""

    daemon_threads = True

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _TokenHandler)
        self.folder, self.seconds, self.given = folder, seconds, 0
        certificate = (folder / "token.crt").read_text()
        self.x5c = "".join(certificate.split("-----")[2].split())

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def token(self, scopes: list[str]) -> str:
        """A JWT for these scopes, signed with RS256."""
        now = time.time()
        access = []
        for scope in scopes:
            kind, name, actions = scope.rsplit(":", 2) if scope.count(":") >= 2 else ("", "", "")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        claims = {
            "iss": "test",
            "sub": USER,
            "aud": "test",
            "exp": int(now + self.seconds - LEEWAY),
            "nbf": int(now) - 5,
            "iat": int(now),
            "jti": secrets.token_hex(8),
            "access": access,
        }
        head = {"typ": "JWT", "alg": "RS256", "x5c": [self.x5c]}
        signed = f"{_b64(json.dumps(head).encode())}.{_b64(json.dumps(claims).encode())}"
        command = ["openssl", "dgst", "-sha256", "-sign", str(self.folder / "token.key")]
        done = subprocess.run(command, input=signed.encode(), capture_output=True, check=True)
        return f"{signed}.{_b64(done.stdout)}"


class _TokenHandler(BaseHTTPRequestHandler):
    server: Tokens
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:  # noqa: N802
        sent = self.headers.get("Authorization", "")
        right = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        if sent != right:
            self._answer(401, b"{}")
            return
        self.server.given += 1
        token = self.server.token(parse_qs(urlsplit(self.path).query).get("scope", []))
        self._answer(200, json.dumps({"token": token, "expires_in": 300}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def token_server(folder: Path, seconds: float) -> Iterator[Tokens]:
    """A token server; `folder` gets its certificate, token.crt, for the registry."""
    process.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2"),
            *("-keyout", folder / "token.key", "-out", folder / "token.crt"),
        ]
    )
    server = Tokens(folder, seconds)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def log_in(folder: Path, *hosts: str) -> dict[str, str]:
    """Write docker's configuration with a login for these; the environment that makes us read it."""
    folder.mkdir(parents=True, exist_ok=True)
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth} for host in hosts}}))
    return {"DOCKER_CONFIG": str(folder)}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
