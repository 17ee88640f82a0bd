"""How servers are reached: pooled connections, proxies, certificate authorities, retries. All HTTP of the driver's
downloads and pushes goes through here."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError
from urllib3.exceptions import HTTPError as TransportError
from urllib3.exceptions import SSLError as TlsError

from slipway.errors import MissingError
from slipway.sources.address import origin, redact, split_login
from slipway.sources.netrc import netrc_login
from slipway.sources.outcome import Absent, Cancelled, Refused, Unreachable
from slipway.sources.retry import RETRY_STATUSES, RetryPolicy, retry_after_seconds

READ_SIZE = 1 << 20
"""Bytes asked of a response at once: large reads keep the interpreter out of the way of the network."""

REDIRECTS = 8
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")
ACCEPT_ANY = {"Accept-Encoding": "identity", "User-Agent": "slipway"}

Response = urllib3.BaseHTTPResponse
Body = bytes | Iterable[bytes] | None


@dataclass(frozen=True)
class HttpSettings:
    """What differs between pip's servers, apt's and registries.

    ca_files:      more authorities to trust, besides the system's and those in CA_VARIABLES
    client_cert:   PEM file with certificate and key, for servers that ask for one
    trusted_hosts: `host` or `host:port` whose certificate is not checked (pip's trusted-host: bytes are pinned anyway)
    proxies:       scheme → proxy address; "" means none. Schemes not named follow HTTP_PROXY, HTTPS_PROXY, NO_PROXY
    host_proxies:  the same for single hosts (apt's Acquire::http::Proxy::host)
    timeout:       seconds to wait for the next byte
    netrc_files:   where user names and passwords of servers stand
    """

    ca_files: tuple[Path, ...] = ()
    client_cert: Path | None = None
    trusted_hosts: frozenset[str] = frozenset()
    proxies: Mapping[str, str] = field(default_factory=dict)
    host_proxies: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 60.0
    netrc_files: tuple[Path, ...] = ()


class Http:
    """A client for one group of servers. Threads share it."""

    def __init__(
        self,
        settings: HttpSettings | None = None,
        policy: RetryPolicy | None = None,
        *,
        cancel: threading.Event | None = None,
        notify: Callable[[str], None] | None = None,
        environ: Mapping[str, str] | None = None,
        connections: int = 8,
    ) -> None:
        self.settings = settings or HttpSettings()
        self.policy = policy or RetryPolicy()
        self.cancel = cancel or threading.Event()
        self.notify = notify or (lambda _text: None)
        self._environ = os.environ if environ is None else environ
        self._connections = connections
        self._pools: dict[tuple[str, bool], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._strikes: dict[str, int] = {}
        self._logins: dict[str, tuple[str, str] | None] = {}

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Body = None,
        redirect: bool = True,
    ) -> Response:
        """One try. The body is not read yet: read it or close the response.

        Raises urllib3.exceptions.HTTPError, urllib3's base of all transport failures, and Cancelled.
        """
        if self.cancel.is_set():
            raise Cancelled
        url, login = split_login(url)
        merged = {**ACCEPT_ANY, **(headers or {})}
        if "Authorization" not in merged and (login := self._login(url, login)) is not None:
            merged.update(urllib3.make_headers(basic_auth=":".join(login)))
        retries = urllib3.Retry(
            total=None, connect=0, read=0, status=0, other=0, redirect=REDIRECTS, respect_retry_after_header=False
        )
        return self._pool_for(url).request(
            method,
            url,
            headers=merged,
            body=body,
            retries=retries,
            redirect=redirect,
            preload_content=False,
            decode_content=False,
        )

    def tries(self, url: str) -> Tries:
        """Bookkeeping for several tries at one address."""
        return Tries(self, url)

    def get(self, url: str, *, headers: Mapping[str, str] | None = None, limit: int) -> tuple[bytes, Response]:
        """A whole small document, with retries, and the response for its headers and final address.

        Raises Absent, Refused, Unreachable (also where it is longer than `limit` bytes).
        """
        tries = self.tries(url)
        while True:
            try:
                with_body = self.send("GET", url, headers=headers)
                try:
                    if tries.wants_again(with_body):
                        continue
                    content = with_body.read(limit + 1)
                    while len(content) <= limit and (more := with_body.read(limit + 1 - len(content))):
                        content += more
                finally:
                    with_body.close()
            except TransportError as error:
                tries.broken(error)
                continue
            if len(content) > limit:
                raise Unreachable(redact(url), f"the answer is longer than {limit} bytes")
            tries.succeeded()
            return content, with_body

    def strike(self, url: str) -> None:
        """An address of this server failed after all tries; the second one marks the server as down for this run."""
        with self._lock:
            self._strikes[origin(url)] = self._strikes.get(origin(url), 0) + 1

    def forgive(self, url: str) -> None:
        """The server answered."""
        if self._strikes:
            with self._lock:
                self._strikes.pop(origin(url), None)

    def is_down(self, url: str) -> bool:
        """Whether the server failed so often that hundreds of files should not wait for it one by one."""
        return self._strikes.get(origin(url), 0) >= 2

    def _login(self, url: str, login: tuple[str, str] | None) -> tuple[str, str] | None:
        """The user name and password for an address: its own, those that came with an earlier address of this server
        (an index's links rarely repeat them), or the machine's netrc files'."""
        with self._lock:
            if login is not None:
                self._logins[origin(url)] = login
            elif origin(url) not in self._logins:
                self._logins[origin(url)] = netrc_login(url, self.settings.netrc_files)
            return self._logins[origin(url)]

    def _pool_for(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        unchecked = bool({host, f"{host}:{port}"} & self.settings.trusted_hosts)
        proxy = proxy_for(url, self.settings, self._environ)
        with self._lock:
            if (pool := self._pools.get((proxy, unchecked))) is None:
                pool = self._pools[proxy, unchecked] = self._make_pool(proxy, unchecked)
            return pool

    def _make_pool(self, proxy: str, unchecked: bool) -> urllib3.PoolManager:
        context = tls_context(self.settings, self._environ, unchecked=unchecked)
        timeout = urllib3.Timeout(connect=min(20.0, self.settings.timeout), read=self.settings.timeout)
        if not proxy:
            return urllib3.PoolManager(
                num_pools=32, maxsize=self._connections, timeout=timeout, ssl_context=context, blocksize=READ_SIZE
            )
        address, login = split_login(proxy)
        scheme = urlsplit(address).scheme
        if scheme not in ("http", "https"):
            raise ProxyError(f"a {scheme}: proxy is configured; only http: and https: proxies are known", Exception())
        headers = urllib3.make_headers(proxy_basic_auth=":".join(login)) if login else None
        return urllib3.ProxyManager(
            address,
            num_pools=32,
            maxsize=self._connections,
            timeout=timeout,
            ssl_context=context,
            proxy_ssl_context=context,
            proxy_headers=headers,
            blocksize=READ_SIZE,
        )


class Tries:
    """How often one address failed in a row. A try that brought new bytes starts the count anew."""

    MOST = 200
    """Tries in all, so that a server that breaks off after every few bytes ends too."""

    def __init__(self, http: Http, url: str) -> None:
        self._http = http
        self._url = url
        self._row = 0
        self._all = 0
        self._furthest = 0
        if http.is_down(url):
            raise Unreachable(redact(url), "this server has failed before in this run")

    def reached(self, position: int) -> None:
        """The first `position` bytes are here: further than ever before, the count of failures starts anew."""
        if position > self._furthest:
            self._furthest = position
            self._row = 0

    def succeeded(self) -> None:
        """The address gave all that was wanted."""
        self._http.forgive(self._url)

    def wants_again(self, response: Response) -> bool:
        """True, after waiting, where the answer may be another one later; False where it is good to read.

        Raises Absent, Refused or Unreachable for all others.
        """
        status, shown = response.status, redact(self._url)
        if status < 300:
            return False
        if status in RETRY_STATUSES:
            response.drain_conn()
            self.failed(f"answered {status}", retry_after_seconds(response.headers.get("Retry-After")))
            return True
        said = f"answered {status}{detail(response)}"
        response.close()
        self._http.forgive(self._url)
        if status in (404, 410):
            raise Absent(shown, said)
        if status in (401, 403, 407, 451):
            raise Refused(shown, said)
        raise Unreachable(shown, said)

    def broken(self, error: Exception) -> None:
        """The connection could not be made or broke off. Waits, or raises Unreachable."""
        limit = 3 if isinstance(_cause(error), NewConnectionError | ConnectTimeoutError) else None
        self.failed(explain(error), limit=limit)

    def failed(self, reason: str, retry_after: float | None = None, *, limit: int | None = None) -> None:
        """Wait before the next try. Raises Unreachable after the last one, Cancelled when the command is stopped."""
        self._row += 1
        self._all += 1
        policy = self._http.policy
        if self._row >= min(policy.tries, limit or policy.tries) or self._all >= self.MOST:
            self._http.strike(self._url)
            raise Unreachable(redact(self._url), f"{reason} ({self._all} tries)")
        if retry_after is not None and retry_after > policy.patience:
            raise Unreachable(redact(self._url), f"{reason}, and asks to come back in {retry_after:.0f} s")
        delay = policy.delay(self._row, retry_after)
        if delay >= 5:
            self._http.notify(f"{redact(self._url)}: {reason}; next try in {delay:.0f} s")
        if self._http.cancel.wait(delay):
            raise Cancelled


def proxy_for(url: str, settings: HttpSettings, environ: Mapping[str, str]) -> str:
    """The proxy for an address, "" for none: the settings' first, then HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY.

    NO_PROXY may hold networks (`10.0.0.0/8`) too, as curl and Go read it.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    chosen = settings.host_proxies.get(host, settings.proxies.get(parts.scheme))
    if chosen is not None:
        return chosen
    proxies = environment_proxies(environ)
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy:
        return ""
    if bypassed(host, parts.port, proxies.get("no", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def environment_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """`{"http": …, "https": …, "all": …, "no": …}` from an environment; lower-case names win."""
    found: dict[str, str] = {}
    for name, value in sorted(environ.items()):  # upper case sorts before lower case
        scheme, underscore, word = name.lower().rpartition("_")
        if word == "proxy" and underscore:
            found[scheme] = value
    return found


def bypassed(host: str, port: int | None, no_proxy: str) -> bool:
    """Whether NO_PROXY names this host: `*`, a name (and all below it), `host:port`, an address, or a network."""
    for item in no_proxy.lower().replace(" ", ",").split(","):
        if not item:
            continue
        name = item.lstrip("*").lstrip(".")
        if item == "*" or (name and (host == name or host.endswith(f".{name}"))) or f"{host}:{port}" == name:
            return True
        if "/" in item and _in_network(host, item):
            return True
    return False


def _in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def tls_context(settings: HttpSettings, environ: Mapping[str, str], *, unchecked: bool = False) -> ssl.SSLContext:
    """The system's authorities plus every configured one; files that are not there are passed over."""
    context = ssl.create_default_context()
    named = [Path(value) for variable in CA_VARIABLES if (value := environ.get(variable))]
    for path in dict.fromkeys((*named, *settings.ca_files, SYSTEM_CA)):
        with _readable(path, "certificates of authorities"):
            if path.is_dir():
                context.load_verify_locations(capath=str(path))
            elif path.is_file():
                context.load_verify_locations(cafile=str(path))
    if settings.client_cert is not None:
        with _readable(settings.client_cert, "a client certificate"):
            context.load_cert_chain(settings.client_cert)
    if unchecked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def _readable(path: Path, holds: str) -> Iterator[None]:
    """Raise MissingError for a configured file of certificates that can't be used."""
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise MissingError(
            f"{path} can't be read as {holds}: {error.strerror or error}",
            where=path,
            remedy=f"see to the file, or to what names it ({', '.join(CA_VARIABLES)}, pip's or apt's configuration)",
        ) from error


def detail(response: Response) -> str:
    """`: what a server says about an error`, where it says so in JSON as registries do; else nothing."""
    if "json" not in response.headers.get("Content-Type", ""):
        return ""
    try:
        document = json.loads(response.read(8192))
        errors = document.get("errors") or [document]
        said = [str(error.get("message") or error.get("detail") or error.get("code") or "") for error in errors]
    except (ValueError, AttributeError, TypeError, TransportError):
        return ""
    text = "; ".join(part for part in said if part)
    return f": {text[:300]}" if text else ""


def _cause(error: BaseException) -> BaseException:
    reason = getattr(error, "reason", None)
    return _cause(reason) if isinstance(reason, BaseException) else error


def explain(error: BaseException) -> str:
    """A transport failure in a few words, without the object addresses that urllib3 puts in front."""
    cause = _cause(error)
    text = str(cause).rpartition(">: ")[2] or type(cause).__name__
    if isinstance(cause, TlsError | ssl.SSLError):
        return f"TLS failed: {text} (is its authority known here? SSL_CERT_FILE names a file of more)"
    return text
