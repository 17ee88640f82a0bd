from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.sources.proxy import bypassed, proxy_for
from slipway.sources.settings import HttpSettings

NONE = HttpSettings()


@pytest.mark.parametrize(
    ("environ", "url", "proxy"),
    [
        ({}, "http://a", ""),
        ({"http_proxy": "http://p:1"}, "http://a", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://a", ""),
        ({"HTTPS_PROXY": "p:1"}, "https://a", "http://p:1"),
        ({"HTTP_PROXY": "http://upper", "http_proxy": "http://lower"}, "http://a", "http://lower"),
        ({"HTTP_PROXY": "http://upper", "http_proxy": ""}, "http://a", ""),
        ({"ALL_PROXY": "http://p:1"}, "https://a", "http://p:1"),
        ({"https_proxy": "http://p:1", "no_proxy": "a"}, "https://a/x", ""),
        ({"https_proxy": "http://p:1", "NO_PROXY": "b, .example.com"}, "https://x.example.com/", ""),
        ({"https_proxy": "http://p:1", "NO_PROXY": "example.com"}, "https://notexample.com/", "http://p:1"),
        ({"http_proxy": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3/", ""),
        ({"http_proxy": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://11.1.2.3/", "http://p:1"),
        ({"http_proxy": "http://p:1", "NO_PROXY": "a:81"}, "http://a:80/", "http://p:1"),
        ({"http_proxy": "http://p:1", "NO_PROXY": "a:81"}, "http://a:81/", ""),
        ({"http_proxy": "http://p:1", "NO_PROXY": "*"}, "http://a/", ""),
    ],
)
def test_the_environment(environ: dict[str, str], url: str, proxy: str) -> None:
    assert proxy_for(url, NONE, environ) == proxy


def test_settings_come_before_the_environment() -> None:
    settings = HttpSettings(proxies={"http": "http://own"}, host_proxies={"near": ""})
    environ = {"http_proxy": "http://p:1", "https_proxy": "http://p:2"}
    assert proxy_for("http://far/", settings, environ) == "http://own"
    assert proxy_for("http://near/", settings, environ) == ""
    assert proxy_for("https://far/", settings, environ) == "http://p:2"


@given(st.text(), st.text())
def test_any_no_proxy_is_read_without_an_error(host: str, no_proxy: str) -> None:
    bypassed(host, None, no_proxy)
