"""One address into one unfinished file: resumed at the byte where it broke, limited in size, hashed on the way."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from urllib3.exceptions import HTTPError as TransportError

from slipway.sources.address import redact
from slipway.sources.http import READ_SIZE, Http
from slipway.sources.outcome import Absent, Cancelled, Unreachable, WrongBytes
from slipway.sources.tries import Response, Tries
from slipway.store.part import Part
from slipway.store.store import hash_file

Moved = Callable[[int], None]
"""Told the number of bytes that came; negative when bytes were thrown away."""


def download(
    http: Http,
    url: str,
    part: Part,
    moved: Moved,
    headers: Mapping[str, str] | None = None,
    *,
    doubt: bool = True,
) -> None:
    """Fill `part` from `url` until its bytes are right.

    Raises Absent, Refused, Unreachable, WrongBytes (other bytes, fewer, or more than the lock's size), Cancelled; and
    OSError when the disk is full. What has come is kept in `part` unless it was wrong. With `doubt`, bytes that were
    put together from several answers and are wrong are fetched once more in one piece before the server is blamed.
    """
    in_one_piece = part.position == 0
    tries = http.tries(url)
    tries.reached(part.position)
    while part.position < part.size or part.size == 0:
        in_one_piece = part.position == 0
        if _one_try(http, url, part, tries, moved, headers or {}):
            break
    if part.is_right:
        tries.succeeded()
        return
    actual, got = part.hexdigest(), part.position
    _throw_away(part, moved)
    if doubt and not in_one_piece:
        download(http, url, part, moved, headers, doubt=False)
        return
    raise WrongBytes(redact(url), "other bytes" if got == part.size else _sizes(got, part.size), actual)


def copy(path: Path, part: Part, moved: Moved, cancel: threading.Event) -> None:
    """Fill `part` from a file of this machine. Raises Absent, Unreachable, WrongBytes, Cancelled."""
    _throw_away(part, moved)
    try:
        file = path.open("rb", buffering=0)
        size = path.stat().st_size
        actual = hash_file(path) if size != part.size else ""
    except (FileNotFoundError, NotADirectoryError):
        raise Absent(str(path), "no such file") from None
    except OSError as error:
        raise Unreachable(str(path), error.strerror or str(error)) from None
    with file:
        if size != part.size:
            raise WrongBytes(str(path), _sizes(size, part.size), actual)
        while chunk := file.read(min(READ_SIZE, part.size - part.position)):
            if cancel.is_set():
                raise Cancelled
            part.write(chunk)
            moved(len(chunk))
    if not part.is_right:
        actual = part.hexdigest()
        _throw_away(part, moved)
        raise WrongBytes(str(path), "other bytes", actual)


def _sizes(got: int | str, wanted: int) -> str:
    return f"{got} bytes long instead of {wanted}"


def _one_try(http: Http, url: str, part: Part, tries: Tries, moved: Moved, headers: Mapping[str, str]) -> bool:
    """One request. True when the file has come to its end, False when another try has to go on from here."""
    ranged = {"Range": f"bytes={part.position}-"} if part.position else {}
    try:
        response = http.send("GET", url, headers={**headers, **ranged})
    except TransportError as error:
        tries.broken(error)
        return False
    try:
        if response.status == 416 and part.position:
            # Shorter there than what is here already: what is here came from elsewhere, so start again.
            _throw_away(part, moved)
            return False
        if tries.wants_again(response):
            return False
        _begin(response, part, moved, redact(url))
        _read_all(http, response, part, tries, moved, redact(url))
    except TransportError as error:
        tries.broken(error)
        return False
    finally:
        response.close()
    return _is_whole(response, part, tries)


def _begin(response: Response, part: Part, moved: Moved, shown: str) -> None:
    """Make `part` fit what the server is about to send. Raises WrongBytes when it announces another size."""
    length = response.headers.get("Content-Length", "")
    announced = int(length) if length.isascii() and length.isdigit() else None
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
        if match is None or int(match[1]) != part.position:
            _throw_away(part, moved)
            raise Unreachable(shown, "answered with another range than the one asked for")
        total = None if match[2] == "*" else int(match[2])
    else:
        if part.position:
            _throw_away(part, moved)  # the server knows no ranges
        total = announced
    if total is not None and total > part.size:
        raise WrongBytes(shown, _sizes(total, part.size))


def _read_all(http: Http, response: Response, part: Part, tries: Tries, moved: Moved, shown: str) -> None:
    while chunk := response.read1(READ_SIZE):  # what has come, so that a break loses nothing
        if http.cancel.is_set():
            raise Cancelled
        if part.position + len(chunk) > part.size:
            _throw_away(part, moved)
            raise WrongBytes(shown, f"more than the {part.size} bytes it should have; stopped reading there")
        part.write(chunk)
        moved(len(chunk))
        tries.reached(part.position)


def _is_whole(response: Response, part: Part, tries: Tries) -> bool:
    """Whether a body that ended without an error really was all: HTTP/1.0 servers just hang up, at any byte."""
    if part.position >= part.size:
        return True
    framed = "Content-Length" in response.headers or "chunked" in response.headers.get("Transfer-Encoding", "")
    if framed:
        return True
    tries.failed(f"hung up after {part.position} bytes of {part.size}")
    return False


def _throw_away(part: Part, moved: Moved) -> None:
    moved(-part.position)
    part.restart()
