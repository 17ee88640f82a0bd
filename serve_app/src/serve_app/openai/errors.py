"""OpenAI's error object, and what may be said to a client. Pure.

Format: https://platform.openai.com/docs/guides/error-codes — {"error": {"message", "type", "param", "code"}}.
Nothing of the inside leaves: no actor id, process id, address, traceback or text of an unexpected exception.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

TYPES = {401: "invalid_request_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
CODES = {401: "invalid_api_key", 404: "not_found", 405: "method_not_allowed", 408: "timeout",
         413: "request_too_large", 429: "overloaded", 500: "internal_error", 502: "internal_error",
         503: "unavailable", 504: "timeout"}  # fmt: skip
GENERAL = {
    408: "The request took longer than the server allows.",
    429: "The server is at capacity; try again later.",
    500: "The server had an error while processing the request.",
    502: "The server had an error while processing the request.",
    503: "The model is not available at the moment; try again later.",
    504: "The request took longer than the server allows.",
}
"""What is said instead of the reason where the reason is the server's own business."""


@dataclass
class ApiError(Exception):
    """An error to answer with. message: for the client, as it is. retry_after_s: for the header, where it helps."""

    status: int
    message: str = ""
    code: str | None = None
    param: str | None = None
    retry_after_s: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, request_id: str | None = None) -> dict[str, Any]:
        """The JSON document."""
        return document(self.status, self.message, self.code, self.param, request_id)


def document(
    status: int, message: str = "", code: str | None = None, param: str | None = None, request_id: str | None = None
) -> dict[str, Any]:
    """{"error": …}. For 5xx and 429 the general sentence is used when no message is given."""
    text = message or GENERAL.get(status) or GENERAL[500]
    if request_id and (status >= 500 or status == 429):
        text = f"{text} (request id {request_id})"
    return {
        "error": {
            "message": text,
            "type": TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error"),
            "param": param,
            "code": code or CODES.get(status),
        }
    }


def from_engine(status: int | None, message: str, param: str | None = None) -> ApiError:
    """An error that vLLM gave: its 4xx texts are about the request and are passed on, its 5xx texts are not."""
    status = status if status and 400 <= status < 600 else 500
    if status >= 500:
        return ApiError(status)
    code = "model_not_found" if status == 404 else None
    if "maximum context length" in message or "context length is only" in message:
        code = "context_length_exceeded"
    return ApiError(status, clean(message), code=code, param=param)


_INSIDE = re.compile(
    r"\(Request ID: [^)]*\)|Message: |, Internal exception: .*|\bpid=\d+|\bip=[0-9.]+|\bactor_id=\w+|<class '[^']*'>",
    re.DOTALL,
)


def clean(message: str) -> str:
    """A 4xx text without what Ray adds to it."""
    return " ".join(_INSIDE.sub("", message).split())


def from_validation(findings: list[dict[str, Any]]) -> ApiError:
    """Pydantic's findings about a request body: the first one, with its place; never the input itself."""
    if not findings:
        return ApiError(400, "The request body is not valid.")
    first = findings[0]
    place = ".".join(str(part) for part in first.get("loc", ()) if part not in ("body",))
    kind = str(first.get("type", ""))
    if kind == "json_invalid":
        return ApiError(400, "The request body is no valid JSON.", code="invalid_json")
    # A union's branches each report; their names in the path mean nothing to a client.
    param = place.split(".")[0] if place else None
    text = clean(str(first.get("msg", "is not valid")))
    return ApiError(400, f"{param}: {text}" if param else text, param=param, code="invalid_value")
