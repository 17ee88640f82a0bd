from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.errors import UsageError
from slipway.registry.auth import parse_challenge
from slipway.registry.reference import Reference, parse_reference

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("registry.example.com/team/thing", Reference("registry.example.com", "team/thing")),
        ("registry.example.com:5000/thing:1.0", Reference("registry.example.com:5000", "thing", "1.0")),
        (f"r.example.com/a/b:t@{DIGEST}", Reference("r.example.com", "a/b", "t", DIGEST)),
        ("localhost/thing", Reference("localhost", "thing", scheme="http")),
        ("127.0.0.1:5000/thing", Reference("127.0.0.1:5000", "thing", scheme="http")),
        ("[::1]:5000/thing", Reference("[::1]:5000", "thing", scheme="http")),
        ("http://registry.lan:5000/thing", Reference("registry.lan:5000", "thing", scheme="http")),
        ("https://localhost/thing", Reference("localhost", "thing")),
    ],
)
def test_references(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "thing", "team/thing", "registry.example.com", "r.example.com/Upper", "r.example.com/a:", "a.b/c@sha256:1"],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(UsageError, match="HOST"):
        parse_reference(text)


PART = st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True)


@given(st.builds("{}.{}:{}/{}/{}:{}".format, PART, PART, st.integers(1, 65535), PART, PART, PART))
def test_a_reference_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_reference(text)) == text


@given(st.text())
def test_anything_is_read_or_refused(text: str) -> None:
    parse_challenge(text)
    with contextlib.suppress(UsageError):
        parse_reference(text)


def test_challenges() -> None:
    assert parse_challenge('Bearer realm="https://a/t?x=1,2",service=s,scope="repository:a:pull,push"') == (
        "bearer",
        {"realm": "https://a/t?x=1,2", "service": "s", "scope": "repository:a:pull,push"},
    )
    assert parse_challenge('Basic realm="x"') == ("basic", {"realm": "x"})
    assert parse_challenge("Negotiate") is None
