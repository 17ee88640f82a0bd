"""How servers are reached: pooled connections, proxies, certificate authorities, retries. All HTTP of the driver's
downloads and pushes goes through here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError as TransportError
from urllib3.exceptions import InsecureRequestWarning

from slipway.errors import MissingError
from slipway.sources.address import origin, redact, split_login
from slipway.sources.netrc import netrc_login
from slipway.sources.outcome import Cancelled, Unreachable
from slipway.sources.proxy import proxy_for
from slipway.sources.retry import RetryPolicy
from slipway.sources.settings import HttpSettings
from slipway.sources.tls import tls_context
from slipway.sources.tries import Response, Tries

READ_SIZE = 1 << 20
"""Bytes asked of a response at once: large reads keep the interpreter out of the way of the network."""

REDIRECTS = 8
FIXED_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "slipway"}

Body = bytes | Iterable[bytes] | None


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
        merged = {**FIXED_HEADERS, **(headers or {})}
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
        if unchecked:  # somebody said so in pip's configuration; a warning for each request helps nobody
            urllib3.disable_warnings(InsecureRequestWarning)
        # urllib3 takes the connect timeout for sending, too: a registry may well stop reading for some seconds.
        timeout = urllib3.Timeout(connect=min(30.0, self.settings.timeout), read=self.settings.timeout)
        if not proxy:
            return urllib3.PoolManager(
                num_pools=32, maxsize=self._connections, timeout=timeout, ssl_context=context, blocksize=READ_SIZE
            )
        address, login = split_login(proxy)
        scheme = urlsplit(address).scheme
        if scheme not in ("http", "https"):
            raise MissingError(
                f"a {scheme}: proxy is configured, and only http: and https: proxies are known here",
                where=redact(proxy),
                remedy="name another one in HTTP_PROXY and HTTPS_PROXY, or set NO_PROXY for the hosts in question",
            )
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
