"""Several tries at one address: what is worth another one, how long to wait, when to give up."""

from __future__ import annotations

import json
import re
import ssl
from typing import TYPE_CHECKING

import urllib3
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.exceptions import HTTPError as TransportError
from urllib3.exceptions import SSLError as TlsError

from slipway.sources.address import redact
from slipway.sources.outcome import Absent, Cancelled, Refused, Unreachable
from slipway.sources.retry import RETRY_STATUSES, retry_after_seconds

if TYPE_CHECKING:
    from slipway.sources.http import Http

Response = urllib3.BaseHTTPResponse


_SHORT = 1 << 16
"""Bytes of an answer that are read rather than the connection given up."""


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
        _let_go(response)
        self._http.forgive(self._url)
        if status in (404, 410):
            raise Absent(shown, said)
        if status in (401, 403, 407, 451):
            raise Refused(shown, said)
        raise Unreachable(shown, said)

    def broken(self, error: Exception) -> None:
        """The connection could not be made or broke off. Waits, or raises Unreachable."""
        self.failed(explain(error), limit=_limit(error))

    def failed(self, reason: str, retry_after: float | None = None, *, limit: int | None = None) -> None:
        """Wait before the next try. Raises Unreachable after the last one, Cancelled when the command is stopped."""
        self._row += 1
        self._all += 1
        policy = self._http.policy
        if self._row >= min(policy.tries, limit or policy.tries) or self._all >= self.MOST:
            self._http.strike(self._url)
            raise Unreachable(redact(self._url), f"{reason} ({self._all} tries)" if self._all > 1 else reason)
        if retry_after is not None and retry_after > policy.patience:
            raise Unreachable(redact(self._url), f"{reason}, and asks to come back in {retry_after:.0f} s")
        delay = policy.delay(self._row, retry_after)
        if delay >= 5:
            self._http.notify(f"{redact(self._url)}: {reason}; next try in {delay:.0f} s")
        if self._http.cancel.wait(delay):
            raise Cancelled


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
    text = "".join(filter(str.isprintable, text))  # it goes to a terminal
    return f": {text[:300]}" if text else ""


def _limit(error: Exception) -> int | None:
    """How many tries a failure is worth that will hardly be another one the next time; None for the usual number."""
    cause = _cause(error)
    if isinstance(cause, NewConnectionError | ConnectTimeoutError):
        return 3
    if isinstance(cause, ssl.SSLCertVerificationError) or "WRONG_VERSION_NUMBER" in str(cause):
        return 1
    return 1 if "too many redirects" in str(cause) else None


def _cause(error: BaseException) -> BaseException:
    """The innermost failure: urllib3 keeps it as `reason` or among the arguments."""
    inner = [error.__dict__.get("reason"), *reversed(error.args)]
    return next((_cause(item) for item in inner if isinstance(item, BaseException)), error)


def explain(error: BaseException) -> str:
    """A transport failure in a few words, without the object addresses that urllib3 puts in front."""
    cause = _cause(error)
    text = re.sub(r"^\w+\(host=.*?\): ", "", str(cause).rpartition(">: ")[2]) or type(cause).__name__
    if isinstance(cause, TlsError | ssl.SSLError):
        if "WRONG_VERSION_NUMBER" in text:
            return "TLS failed: there is no TLS at this address (http:// in front of it says so)"
        return f"TLS failed: {text} (is its authority known here? SSL_CERT_FILE names a file of more)"
    return text


def _let_go(response: Response) -> None:
    """Be done with an answer that was not wanted. A short rest is read, so that the connection can be used again: an
    index without a page for each of hundreds of wheels would cost as many connections."""
    length = response.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and int(length) <= _SHORT:
        response.drain_conn()
    else:
        response.close()
