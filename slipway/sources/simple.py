"""Pages of a wheel index: the simple repository API as HTML (PEP 503) and as JSON (PEP 691), and plain link pages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
PAGE_LIMIT = 64 << 20
"""Bytes of the longest page that is read."""


@dataclass(frozen=True)
class Link:
    """One file that a page offers; sha256 is empty where the page does not tell it."""

    file: str
    url: str
    sha256: str = ""


def normal(name: str) -> str:
    """A distribution's name as it stands in an index's addresses (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_page(content: bytes, content_type: str, base: str) -> list[Link]:
    """All links of a page. `base` is the address it came from. A page that can't be read offers nothing."""
    if "json" in content_type:
        return _parse_json(content, base)
    collector = _Anchors()
    collector.feed(content.decode("utf-8", "replace"))
    collector.close()
    base = urljoin(base, collector.base) if collector.base else base
    return [link for href in collector.hrefs if (link := _from_href(href, base)) is not None]


def _parse_json(content: bytes, base: str) -> list[Link]:
    try:
        document = json.loads(content)
        rows = document["files"]
        found = []
        for row in rows:
            hashes = row.get("hashes") or {}
            url = urljoin(base, row["url"])
            found.append(Link(row["filename"], urldefrag(url).url, str(hashes.get("sha256", "")).lower()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return found


def _from_href(href: str, base: str) -> Link | None:
    try:
        url, fragment = urldefrag(urljoin(base, href))
        file = unquote(urlsplit(url).path.rpartition("/")[2])
    except ValueError:
        return None
    match = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})(?:&|$)", fragment)
    return Link(file, url, match[1].lower() if match else "") if file else None


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "a":
            self.hrefs.append(href.strip())
        elif href and tag == "base" and not self.base:
            self.base = href.strip()
