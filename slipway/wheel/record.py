"""RECORD: the list of a distribution's files with their hashes.

https://packaging.python.org/en/latest/specifications/recording-installed-packages/#the-record-file
"""

from __future__ import annotations

import binascii
import csv
import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slipway.wheel.refused import RefusedWheel

_LENGTHS = {"sha256": 43, "sha384": 64, "sha512": 86}
"""Characters of base64. The specification: sha256 or better; md5, sha1 and sha224 are not permitted."""

_USUAL = len("sha256=") + _LENGTHS["sha256"]
_BASE64 = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Row(NamedTuple):
    """What RECORD says of one file. hash is `sha256=…` as RECORD spells it, or ""; size is None where none stands."""

    hash: str = ""
    size: int | None = None

    @property
    def algorithm(self) -> str:
        """hashlib's name of the hash function, or ""."""
        return self.hash.partition("=")[0]


def spell(algorithm: str, digest: bytes) -> str:
    """A hash in RECORD's form: URL-safe base64 without padding."""
    return f"{algorithm}={binascii.b2a_base64(digest, newline=False).translate(_URL_SAFE).rstrip(b'=').decode()}"


def row_of(content: bytes) -> Row:
    """The row of a file with this content."""
    return Row(spell("sha256", hashlib.sha256(content).digest()), len(content))


def parse(content: bytes, wheel: str, member: str) -> dict[str, Row]:
    """Rows by path. Raises RefusedWheel, naming the wheel and its RECORD, for everything malformed."""

    def refuse(line: int, what: str) -> RefusedWheel:
        return RefusedWheel(wheel, f"line {line}: {what}", member=member, why="its files can't be checked against it")

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedWheel(wheel, "it is not UTF-8", member=member) from error
    rows: dict[str, Row] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for fields in reader:
            if not fields:
                continue
            if len(fields) != 3:
                raise refuse(reader.line_num, f"{len(fields)} fields instead of 3")
            path, hashed, size = fields
            row = _row(hashed, size)
            if isinstance(row, str):
                raise refuse(reader.line_num, f"{row} for {path!a}")
            path = path.replace("\\", "/")  # wheels built on Windows
            if rows.setdefault(path, row) != row:
                raise refuse(reader.line_num, f"another hash or size for {path!a} than before")
    except csv.Error as error:
        raise refuse(reader.line_num, str(error)) from error
    return rows


def _row(hashed: str, size: str) -> Row | str:
    """A row, or what is wrong with it."""
    if hashed.startswith("sha256=") and len(hashed) == _USUAL and _BASE64(hashed, 7) and size.isdecimal():
        return Row(hashed, int(size))
    if size and not (size.isascii() and size.isdecimal()):
        return f"{size!a} is no size"
    length = int(size) if size else None
    if not hashed:
        return Row("", length)
    algorithm, _, encoded = hashed.partition("=")
    if algorithm not in _LENGTHS:
        return f"hash {algorithm!a} is not one of {', '.join(_LENGTHS)}"
    encoded = encoded.rstrip("=")
    if len(encoded) != _LENGTHS[algorithm] or not _BASE64(encoded):
        return f"{encoded!a} is no {algorithm} in URL-safe base64"
    return Row(f"{algorithm}={encoded}", length)


def dump(rows: Mapping[str, Row] | Iterable[tuple[str, Row]]) -> bytes:
    """RECORD's bytes: rows sorted by path, quoted as csv asks for, one line feed each."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    ordered = sorted(rows.items() if isinstance(rows, Mapping) else rows)
    writer.writerows((path, hashed, "" if size is None else size) for path, (hashed, size) in ordered)
    return stream.getvalue().encode()
