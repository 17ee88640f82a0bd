"""OpenAI's error object, and nothing of the inside in it."""

from __future__ import annotations

import pytest
from serve_app.openai import errors
from serve_app.openai.errors import ApiError

RAY = (
    "Message: ray::ServeReplica:default:Decode:demo.handle_request() (pid=123, ip=10.0.0.5, actor_id=abc0123) boom, "
    "Internal exception: Traceback (most recent call last): File x.py, original exception: boom"
)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 413, 422, 429, 500, 502, 503, 504])
def test_the_shape_is_openais(status: int) -> None:
    inner = errors.document(status)["error"]
    assert set(inner) == {"message", "type", "param", "code"}
    assert isinstance(inner["message"], str) and inner["message"]
    assert isinstance(inner["type"], str)
    assert inner["code"] is None or isinstance(inner["code"], str)


def test_the_engines_4xx_text_is_for_the_client() -> None:
    error = errors.from_engine(400, "This model's maximum context length is 2048 tokens.", "messages")
    inner = error.body("id-1")["error"]
    assert inner["message"] == "This model's maximum context length is 2048 tokens."
    assert inner["code"] == "context_length_exceeded"
    assert inner["param"] == "messages"


@pytest.mark.parametrize("status", [500, 503, None, 0, 200, 999])
def test_the_engines_5xx_text_is_not(status: int | None) -> None:
    error = errors.from_engine(status, RAY)
    assert error.status >= 500
    text = str(error.body("id-1"))
    for inside in ("pid", "10.0.0.5", "actor", "Traceback", "boom", "ray::"):
        assert inside not in text
    assert "id-1" in text


def test_rays_additions_to_a_4xx_are_taken_off() -> None:
    text = errors.clean("Message: prompt is empty (Request ID: 12-3), Internal exception: Traceback\nmore")
    assert text == "prompt is empty"


def test_a_validation_error_names_the_field_and_never_the_input() -> None:
    finding = {"type": "int_parsing", "loc": ("body", "max_tokens"), "msg": "not an integer", "input": "SECRET"}
    inner = errors.from_validation([finding]).body()["error"]
    assert inner["param"] == "max_tokens"
    assert inner["message"] == "max_tokens: not an integer"
    assert "SECRET" not in str(inner)


def test_malformed_json_is_said_to_be_that() -> None:
    error = errors.from_validation([{"type": "json_invalid", "loc": ("body", 12), "msg": "x", "ctx": {"error": "y"}}])
    assert error.status == 400
    assert error.code == "invalid_json"


def test_no_finding_at_all() -> None:
    assert errors.from_validation([]).status == 400


def test_an_api_error_is_an_exception() -> None:
    with pytest.raises(ApiError):
        raise ApiError(429, retry_after_s=5)
