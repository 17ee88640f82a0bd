"""Image names, short and long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.errors import UsageError
from slipway.load import reference

CASES = [
    ("slipway", "docker.io/library/slipway:latest", "slipway:latest"),
    ("slipway:2.60-cpu", "docker.io/library/slipway:2.60-cpu", "slipway:2.60-cpu"),
    ("team/slipway:x", "docker.io/team/slipway:x", "team/slipway:x"),
    ("docker.io/library/slipway:x", "docker.io/library/slipway:x", "slipway:x"),
    ("localhost/slipway", "localhost/slipway:latest", "localhost/slipway:latest"),
    ("host.example:5000/a/b:t", "host.example:5000/a/b:t", "host.example:5000/a/b:t"),
    ("host.example:5000/a", "host.example:5000/a:latest", "host.example:5000/a:latest"),
]


@pytest.mark.parametrize(("given_name", "long", "short"), CASES)
def test_forms(given_name: str, long: str, short: str) -> None:
    assert reference.qualified(given_name) == long
    assert reference.familiar(given_name) == short


@pytest.mark.parametrize(
    "name", ["", ":", "Slipway", "a:b c", "a//b", "/a", "a/", "a:" + "x" * 129, "a@sha256:0", "a\n"]
)
def test_what_is_no_name_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError):
        reference.qualified(name)


@given(st.text(max_size=40))
def test_forms_agree(name: str) -> None:
    try:
        long = reference.qualified(name)
    except UsageError:
        return
    assert reference.qualified(reference.familiar(name)) == long
    assert reference.qualified(long) == long
