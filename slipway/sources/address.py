"""Addresses: joining, telling local from remote, and hiding the passwords in them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import url2pathname


def redact(url: str) -> str:
    """`url` as it may be shown: without user name, password and query (signed addresses carry secrets there)."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """The address without its `user:password@`, and those."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (unquote(user), unquote(password))


def join(root: str, path: str) -> str:
    """`root`/`path`, quoted; `+` too, since some servers read it as a blank."""
    return root.rstrip("/") + "/" + quote(path.lstrip("/"), safe="/~:@")


def local_path(address: str) -> Path | None:
    """The path that a `file:` address or a plain path means; None for what needs a network."""
    if address.startswith("file:"):
        return Path(url2pathname(urlsplit(address).path))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", address):
        return None
    return Path(address).expanduser()


def origin(url: str) -> str:
    """Scheme, host and port: what is up or down as one."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
