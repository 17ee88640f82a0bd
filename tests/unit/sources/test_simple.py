from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from slipway.sources.simple import Link, normal, parse_page

SHA = "ab" * 32
BASE = "https://index.example.com/simple/thing/"


def test_html() -> None:
    page = f"""<!DOCTYPE html><html><body>
      <a href="../../files/thing-1.0+cpu.whl#sha256={SHA.upper()}" data-requires-python="&gt;=3">thing</a>
      <A HREF='https://files.example.com/thing-1%2Bx.whl#md5=00'>other</A> <a>none</a> <a href="">none</a>
    </body></html>"""
    assert parse_page(page.encode(), "text/html; charset=utf-8", BASE) == [
        Link("thing-1.0+cpu.whl", "https://index.example.com/files/thing-1.0+cpu.whl", SHA),
        Link("thing-1+x.whl", "https://files.example.com/thing-1%2Bx.whl", ""),
    ]


def test_a_base_element() -> None:
    page = b'<base href="https://other.example.com/x/"><a href="t.whl">t</a>'
    assert parse_page(page, "text/html", BASE)[0].url == "https://other.example.com/x/t.whl"


def test_json() -> None:
    page = {"files": [{"filename": "t.whl", "url": "/f/t.whl", "hashes": {"sha256": SHA}}]}
    kind = "application/vnd.pypi.simple.v1+json"
    assert parse_page(json.dumps(page).encode(), kind, BASE) == [
        Link("t.whl", "https://index.example.com/f/t.whl", SHA)
    ]


@given(st.binary(), st.sampled_from(["text/html", "application/vnd.pypi.simple.v1+json", ""]))
def test_any_page_is_read_without_an_error(content: bytes, kind: str) -> None:
    parse_page(content, kind, BASE)


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(
    st.dictionaries(st.sampled_from(["files"]), st.lists(st.dictionaries(st.sampled_from(["url", "filename"]), JSON)))
)
def test_any_json_is_read_without_an_error(document: dict[str, object]) -> None:
    parse_page(json.dumps(document).encode(), "application/json", BASE)


def test_names() -> None:
    assert normal("Foo.Bar__baz") == "foo-bar-baz"
