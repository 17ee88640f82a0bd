"""Access to a registry: basic and bearer-token authentication, tokens renewed before they expire.

Format: https://distribution.github.io/distribution/spec/auth/token/ and .../auth/oauth/.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError as TransportError

from slipway.registry.login import Login
from slipway.sources.address import redact
from slipway.sources.http import Http
from slipway.sources.outcome import Refused, Unreachable
from slipway.sources.tries import Response

EARLY = 20.0
"""Seconds before its end at which a token is renewed."""

SHORTEST = 60
"""Seconds that a token lasts when the server does not say."""


class Access:
    """Authorization headers for one registry. Threads share it."""

    def __init__(self, http: Http, find: Callable[[], Login | None]) -> None:
        self._http = http
        self._find = find
        self._lock = threading.RLock()
        self._login: Login | None = None
        self._looked = False
        self._challenge: tuple[str, dict[str, str]] | None = None
        self._tokens: dict[str, tuple[str, float]] = {}

    def headers(self, scope: str) -> dict[str, str]:
        """What to send along for `repository:NAME:ACTIONS`; nothing until the registry has asked for something."""
        with self._lock:
            if self._challenge is None:
                return {}
            kind, parameters = self._challenge
            if kind == "basic":
                login = self._credentials()
                return _basic(login) if login is not None else {}
            token, until = self._tokens.get(scope, ("", 0.0))
            if time.monotonic() >= until:
                token, until = self._tokens[scope] = self._fetch(parameters, scope)
            return {"Authorization": f"Bearer {token}"}

    def challenged(self, response: Response, scope: str, sent: Mapping[str, str]) -> bool:
        """Take note of a 401 answer to a request with the headers `sent`. True when another try makes sense."""
        challenge = parse_challenge(response.headers.get("WWW-Authenticate", ""))
        used = sent.get("Authorization", "")
        with self._lock:
            if challenge is None:
                return False
            self._challenge = challenge
            if challenge[0] == "basic":
                login = self._credentials()
                if login is not None and used == _basic(login)["Authorization"]:
                    login = self._credentials(again=True)  # ECR's password lasts 12 hours
                return login is not None and used != _basic(login)["Authorization"]
            if used == f"Bearer {self._tokens.get(scope, ('', 0.0))[0]}":  # else another thread has a newer one
                del self._tokens[scope]
            return True

    def _credentials(self, *, again: bool = False) -> Login | None:
        if again or not self._looked:
            self._login = self._find()
            self._looked = True
        return self._login

    def _fetch(self, parameters: Mapping[str, str], scope: str) -> tuple[str, float]:
        """A token and when to renew it. A login that is refused is left out where reading is all that is wanted:
        an expired one must not keep anybody from a public image."""
        login = self._credentials()
        try:
            return self._ask(parameters, scope, login)
        except Refused:
            if login is None or "push" in scope:
                raise
        return self._ask(parameters, scope, None)

    def _ask(self, parameters: Mapping[str, str], scope: str, login: Login | None) -> tuple[str, float]:
        realm = parameters.get("realm", "")
        query = {"service": parameters.get("service", ""), "scope": scope}
        tries = self._http.tries(realm)
        while True:
            try:
                if login is not None and login.identity_token:
                    form = {"grant_type": "refresh_token", "client_id": "slipway", **query}
                    body = urlencode({**form, "refresh_token": login.identity_token}).encode()
                    headers = {"Content-Type": "application/x-www-form-urlencoded"}
                    response = self._http.send("POST", realm, headers=headers, body=body)
                else:
                    url = f"{realm}{'&' if '?' in realm else '?'}{urlencode({k: v for k, v in query.items() if v})}"
                    response = self._http.send("GET", url, headers=_basic(login) if login is not None else None)
                if tries.wants_again(response):
                    continue
                answer = json.loads(response.read(1 << 20))
            except TransportError as error:
                tries.broken(error)
                continue
            except ValueError:
                raise Unreachable(redact(realm), "gave no usable token") from None
            return _token(answer, redact(realm))


def _token(answer: object, realm: str) -> tuple[str, float]:
    if isinstance(answer, dict):
        token = answer.get("token") or answer.get("access_token")
        lasts = answer.get("expires_in")
        seconds = lasts if isinstance(lasts, int | float) and lasts > 0 else SHORTEST
        if isinstance(token, str) and token:
            return token, time.monotonic() + max(seconds - EARLY, seconds / 2)
    raise Unreachable(realm, "gave no usable token")


def _basic(login: Login) -> dict[str, str]:
    made = urllib3.make_headers(basic_auth=f"{login.user}:{login.password}")
    return {"Authorization": made["authorization"]}


def parse_challenge(header: str) -> tuple[str, dict[str, str]] | None:
    """WWW-Authenticate as (`basic` or `bearer`, parameters); None for other schemes."""
    kind, _, rest = header.strip().partition(" ")
    if kind.lower() not in ("basic", "bearer"):
        return None
    return kind.lower(), {key.lower(): quoted or plain for key, quoted, plain in PARAMETER.findall(rest)}


PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')
