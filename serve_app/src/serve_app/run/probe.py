"""Asks the endpoint for a real token: an engine can report ready and die at its first request."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any


def url(host: str, port: int, prefix: str) -> str:
    """Base address to ask a listener on `host` from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"http://{host}:{port}{prefix.rstrip('/')}"


def models(base: str, timeout_s: float = 10.0) -> list[str]:
    """The ids in GET /v1/models. Raises OSError or ValueError when there is no such answer."""
    answer = _call(f"{base}/v1/models", None, timeout_s)
    return [str(model["id"]) for model in answer["data"]]


def first_token(base: str, model: str, timeout_s: float = 120.0) -> str:
    """One token of one model; which route gave it. Raises OSError or ValueError when none came."""
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/v1/completions", {"prompt": "ready?", "max_tokens": 1, "temperature": 0}),
        ("/v1/embeddings", {"input": "ready?"}),
    ]
    refusal = "no route"
    for route, body in requests:
        try:
            answer = _call(base + route, {"model": model, **body}, timeout_s)
        except urllib.error.HTTPError as error:
            if error.code not in (400, 404):
                raise
            refusal = f"{route} answered {error.code}"  # a model of another kind: try the next route
            continue
        if answer.get("choices") or answer.get("data"):
            return route
        refusal = f"{route} answered without a choice"
    raise ValueError(refusal)


def wait_for_tokens(base: str, deadline_s: float, pause_s: float = 0.5, keyed: bool = False) -> dict[str, str]:
    """Model → route that gave a token, for every model. Raises TimeoutError with the last reason.

    keyed: the endpoint wants an API key, of which only hashes may be known here. GET /ready is asked then: each
    replica has computed a token before it says so.
    """
    end = time.monotonic() + deadline_s
    done: dict[str, str] = {}
    reason = "no answer"
    while time.monotonic() < end:
        try:
            if keyed:
                return dict.fromkeys(_call(f"{base}/ready", None, 10.0)["models"], "/ready")
            for model in models(base):
                if model not in done:
                    done[model] = first_token(base, model)
            return done
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = str(error)
        time.sleep(pause_s)
    raise TimeoutError(f"no token within {deadline_s:.0f} s: {reason}")


def _call(address: str, body: dict[str, Any] | None, timeout_s: float) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"})  # noqa: S310 - http only
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy: it is this machine
    with opener.open(request, timeout=timeout_s) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
