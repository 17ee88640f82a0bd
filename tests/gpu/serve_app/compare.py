"""Sends a request and brings the answer into a form in which two answers can be compared."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from kinds import Kind

CHANGING = {"id", "created", "system_fingerprint", "request_id", "metrics", "kv_transfer_params"}
TOLERANCE = 0.01
"""Allowed difference of a log probability."""


def send(base: str, kind: Kind, timeout_s: float = 180.0) -> dict[str, Any]:
    """{"status", "body"} or {"status", "events"}. Status 0: no answer."""
    data = kind.raw if kind.raw is not None else json.dumps(kind.body).encode() if kind.method == "POST" else None
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(base + kind.route, data, headers, method=kind.method)  # noqa: S310 - our own
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            text = response.read().decode()
            status, stream = response.status, "event-stream" in response.headers.get("content-type", "")
    except urllib.error.HTTPError as error:
        text, status, stream = error.read().decode(), error.code, False
    except OSError as error:
        return {"status": 0, "body": repr(error)}
    if stream:
        lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
        return {"status": status, "events": [line if line == "[DONE]" else json.loads(line) for line in lines]}
    try:
        return {"status": status, "body": json.loads(text)}
    except ValueError:
        return {"status": status, "body": text}


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """What must be equal. Of a stream: the choices put together, the last usage, how it ends, and its errors."""
    if "events" not in answer:
        return {"status": answer["status"], "body": _strip(answer["body"])}
    events = answer["events"]
    choices: dict[int, dict[str, Any]] = {}
    usage, errors = None, []
    for event in events:
        if event == "[DONE]":
            continue
        if "error" in event:
            errors.append(_strip(event))
            continue
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            _gather(choices.setdefault(choice["index"], {"text": "", "logprobs": {}, "tools": {}}), choice)
    return {"status": answer["status"], "choices": choices, "usage": usage, "errors": errors,
            "done": [event for event in events if event == "[DONE]"], "last": events[-1:] == ["[DONE]"]}  # fmt: skip


def _gather(into: dict[str, Any], choice: dict[str, Any]) -> None:
    delta = choice.get("delta") or {}
    into["text"] += delta.get("content") or choice.get("text") or ""
    for call in delta.get("tool_calls") or []:
        tool = into["tools"].setdefault(call["index"], {"name": "", "arguments": ""})
        function = call.get("function") or {}
        tool["name"] += function.get("name") or ""
        tool["arguments"] += function.get("arguments") or ""
    # Which tokens share a chunk is a matter of timing: their lists are put together.
    for name, values in (choice.get("logprobs") or {}).items():
        into["logprobs"].setdefault(name, []).extend(values or [])
    into["finish_reason"] = choice.get("finish_reason") or into.get("finish_reason")
    into["token_ids"] = (into.get("token_ids") or []) + (choice.get("token_ids") or [])


def _strip(data: Any) -> Any:
    """Without what differs from request to request."""
    if isinstance(data, dict):
        kept = {key: _strip(value) for key, value in data.items() if key not in CHANGING}
        if set(data) >= {"name", "arguments"} or data.get("type") == "function":
            kept.pop("id", None)
        return kept
    if isinstance(data, list):
        return [_strip(item) for item in data]
    return data


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Paths at which two answers differ; log probabilities may by TOLERANCE."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = list(dict.fromkeys([*one, *other]))
        return [found for key in keys for found in differences(one.get(key), other.get(key), f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return [f"{path}: {len(one)} and {len(other)} items"]
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, (a, b) in pairs for found in differences(a, b, f"{path}[{i}]")]
    if isinstance(one, float) and isinstance(other, float) and "logprob" in path:
        return [] if abs(one - other) <= TOLERANCE else [f"{path}: {one} and {other}"]
    return [] if one == other else [f"{path}: {one!r} and {other!r}"]
