from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slipway.sources.address import join, local_path, redact, split_login
from slipway.sources.netrc import netrc_login, parse
from slipway.sources.retry import RetryPolicy, retry_after_seconds


def test_secrets_are_not_shown() -> None:
    assert redact("https://me:se%40cret@host:1/a?token=x#y") == "https://host:1/a"
    assert redact("/srv/wheels") == "/srv/wheels"


def test_logins() -> None:
    assert split_login("https://me:se%40cret@host:1/a") == ("https://host:1/a", ("me", "se@cret"))
    assert split_login("https://host/a") == ("https://host/a", None)


def test_paths() -> None:
    assert join("http://h/debian/", "pool/l/libc++~1:2.deb") == "http://h/debian/pool/l/libc%2B%2B~1:2.deb"
    assert local_path("file:///srv/my%20wheels") == Path("/srv/my wheels")
    assert local_path("file:/srv/debian") == Path("/srv/debian")
    assert local_path("wheels") == Path("wheels")
    assert local_path("https://h/a") is None


def test_netrc_and_apts_logins(tmp_path: Path) -> None:
    path = tmp_path / "auth.conf"
    path.write_text(
        "# comment\nmachine a.example.com/debian login me password one\nmachine a.example.com\nlogin you password two\n"
        "machine http://b.example.com:8080 login b password three\ndefault login d password four\n"
    )
    assert netrc_login("https://a.example.com/debian/x", [path]) == ("me", "one")
    assert netrc_login("https://a.example.com/x", [path]) == ("you", "two")
    assert netrc_login("http://b.example.com:8080/x", [path]) == ("b", "three")
    assert netrc_login("https://b.example.com:8080/x", [path]) == ("d", "four")
    assert netrc_login("https://b.example.com/x", [tmp_path / "none"]) is None


@given(st.text())
def test_any_netrc_is_read_without_an_error(text: str) -> None:
    parse(text)


@given(st.integers(1, 50), st.none() | st.floats(0, 1000))
def test_waits_grow_to_a_limit_and_obey_the_server(failures: int, asked: float | None) -> None:
    policy = RetryPolicy(first=0.5, most=30)
    wait = policy.delay(failures, asked)
    assert wait >= (asked or 0)
    assert wait <= max(asked or 0, min(30, 0.5 * 2 ** (failures - 1)))
    assert wait >= min(30, 0.5 * 2 ** (failures - 1)) / 2


def test_retry_after() -> None:
    assert retry_after_seconds("12") == 12
    assert retry_after_seconds("Thu, 01 Jan 1970 00:01:40 GMT", now=40) == 60
    assert retry_after_seconds("Thu, 01 Jan 1970 00:01:40 GMT", now=400) == 0
    assert retry_after_seconds("soon") is None
    assert retry_after_seconds(None) is None


@given(st.text())
def test_any_retry_after_is_read_without_an_error(text: str) -> None:
    retry_after_seconds(text)
