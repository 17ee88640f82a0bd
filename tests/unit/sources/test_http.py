"""Proxies, certificate authorities and logins, with servers of this machine."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.errors import MissingError
from slipway.sources.http import Http
from slipway.sources.outcome import Absent, Cancelled, Refused, Unreachable
from slipway.sources.retry import RetryPolicy
from slipway.sources.settings import HttpSettings
from tests.unit.store.server import Server, serving

FAST = RetryPolicy(tries=2, first=0.001, most=0.002)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def client(settings: HttpSettings | None = None, **environ: str) -> Http:
    return Http(settings, FAST, environ=environ)


def test_a_proxy_from_the_environment(server: Server) -> None:
    server.put("http://index.example.com/simple/", b"page")
    content, _response = client(http_proxy=server.url).get("http://index.example.com/simple/", limit=100)
    assert content == b"page"


def test_a_proxy_with_a_login(server: Server) -> None:
    server.put("http://index.example.com/", b"page")
    client(http_proxy=server.url.replace("//", "//me:secret@")).get("http://index.example.com/", limit=100)
    assert server.headers[0]["proxy-authorization"] == "Basic bWU6c2VjcmV0"


def test_no_proxy(server: Server) -> None:
    server.put("/", b"direct")
    http = client(http_proxy="http://127.0.0.1:9", no_proxy="127.0.0.1")
    assert http.get(f"{server.url}/", limit=100)[0] == b"direct"


def test_a_proxy_of_a_kind_that_is_not_known() -> None:
    with pytest.raises(MissingError, match="socks5"):
        client(http_proxy="socks5://127.0.0.1:9").get("http://index.example.com/", limit=100)


def test_documents_have_a_limit(server: Server) -> None:
    server.put("/", b"x" * 1000)
    assert len(client().get(f"{server.url}/", limit=1000)[0]) == 1000
    with pytest.raises(Unreachable, match="longer than 999"):
        client().get(f"{server.url}/", limit=999)


def test_a_broken_document_is_asked_for_again(server: Server) -> None:
    server.put("/", b"x" * 1000, break_at=[500])
    assert len(client().get(f"{server.url}/", limit=1000)[0]) == 1000


def test_what_servers_say_about_errors(server: Server) -> None:
    with pytest.raises(Absent):
        client().get(f"{server.url}/none", limit=10)
    server.put("/", b"", statuses=[403])
    with pytest.raises(Refused):
        client().get(f"{server.url}/", limit=10)


def test_a_login_is_used_for_the_links_of_an_index_too(server: Server) -> None:
    server.put("/simple", b"page", login="Basic bWU6c2VjcmV0")
    server.put("/file", b"file", login="Basic bWU6c2VjcmV0")
    http = client()
    http.get(server.url.replace("//", "//me:secret@") + "/simple", limit=10)
    assert http.get(f"{server.url}/file", limit=10)[0] == b"file"


def test_a_login_from_netrc(server: Server, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    server.put("/", b"page", login="Basic bWU6c2VjcmV0")
    http = client(HttpSettings(netrc_files=(tmp_path / "netrc",)))
    assert http.get(f"{server.url}/", limit=10)[0] == b"page"


def test_a_login_does_not_follow_a_redirect_to_another_server(server: Server) -> None:
    with serving() as other:
        other.put("/", b"page")
        server.put("/", b"", location=f"{other.url}/")
        client().get(server.url.replace("//", "//me:secret@"), limit=10)
        assert "Authorization" not in other.headers[0]


def test_cancel_ends_a_wait(server: Server) -> None:
    server.put("/", b"", statuses=[503] * 9, retry_after="100")
    cancel = threading.Event()
    http = Http(policy=RetryPolicy(), cancel=cancel, environ={})
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(Cancelled):
        http.get(f"{server.url}/", limit=10)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody knows yet; its key lies beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("authority")
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key"), "-out", str(folder / "ca.pem")]
    subprocess.run(argv, check=True, capture_output=True)
    return folder / "ca.pem"


@pytest.fixture
def secure(server: Server, authority: Path) -> Server:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, authority.with_name("key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.put("/", b"page")
    return server


def https(server: Server) -> str:
    return server.url.replace("http:", "https:") + "/"


def test_an_unknown_authority_is_refused(secure: Server) -> None:
    with pytest.raises(Unreachable, match="TLS failed.*SSL_CERT_FILE"):
        client().get(https(secure), limit=10)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"])
def test_an_authority_of_ones_own(secure: Server, authority: Path, variable: str) -> None:
    assert client(**{variable: str(authority)}).get(https(secure), limit=10)[0] == b"page"


def test_an_authority_that_pip_or_apt_are_configured_with(secure: Server, authority: Path) -> None:
    assert client(HttpSettings(ca_files=(authority,))).get(https(secure), limit=10)[0] == b"page"


def test_a_trusted_host(secure: Server) -> None:
    settings = HttpSettings(trusted_hosts=frozenset({"127.0.0.1"}))
    assert client(settings).get(https(secure), limit=10)[0] == b"page"


def test_a_broken_file_of_authorities(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("rubbish")
    with pytest.raises(MissingError, match=r"ca\.pem can't be read"):
        client(SSL_CERT_FILE=str(tmp_path / "ca.pem")).get("https://127.0.0.1:9/", limit=10)
