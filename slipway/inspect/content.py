"""What a file's bytes say about it, taken while they stream by: digest, ELF facts, marks, and a few kept texts."""

from __future__ import annotations

import hashlib
import mmap
import re
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from slipway.inspect import elf

IN_MEMORY = 64 << 20
"""Bytes of an ELF file that are kept in memory; a longer one goes to an unlinked temporary file while it is read."""

MAX_TEXT = 4 << 20
"""Files up to this size in bytes are searched for secrets, and kept where KEPT says so."""

KEPT = re.compile(
    r"etc/(ld\.so\.cache|ld\.so\.conf|ld\.so\.conf\.d/[^/]+\.conf|passwd|group|hostname|hosts|resolv\.conf|machine-id"
    r"|os-release|pip\.conf|apt/sources\.list|apt/sources\.list\.d/[^/]+|apt/auth\.conf(\.d/[^/]+)?)"
    r"|(.*/)?(pyvenv\.cfg|pip\.conf|\.netrc|\.pypirc|\.docker/config\.json|\.dockercfg|\.git-credentials)"
    r"|(.*/)?(site|dist)-packages/([^/]+\.pth|[^/]+\.dist-info/(METADATA|RECORD|direct_url\.json))"
    r"|var/lib/dpkg/(status|status\.d/[^/]+|info/[^/]+\.list)"
)
"""Paths whose content gates and owners need: a full match."""

_SECRETS: tuple[tuple[str, bytes, re.Pattern[bytes]], ...] = tuple(
    (name, needle, re.compile(pattern))
    for name, needle, pattern in (
        # A header alone is what parsers and tests of them hold; a key has lines of base64 after it.
        (
            "private key",
            b"PRIVATE KEY",
            rb"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:\\n|\\r|\s)+(?:[A-Z][A-Za-z-]+: [^\n]*\s+)*"
            rb"[\"' ]*[A-Za-z0-9+/=]{40}",
        ),
        ("AWS access key", b"AKIA", rb"(?<![A-Z0-9])AKIA(?![A-Z0-9]*EXAMPLE)[A-Z2-7]{16}(?![A-Z0-9])"),
        ("GitHub token", b"ghp_", rb"\bghp_[A-Za-z0-9]{36}\b"),
        ("GitHub token", b"gho_", rb"\bgho_[A-Za-z0-9]{36}\b"),
        ("GitHub token", b"ghs_", rb"\bghs_[A-Za-z0-9]{36}\b"),
        ("GitHub token", b"github_pat_", rb"\bgithub_pat_[A-Za-z0-9_]{60}"),
        ("GitLab token", b"glpat-", rb"\bglpat-[A-Za-z0-9_-]{20}\b"),
        ("Hugging Face token", b"hf_", rb"\bhf_[A-Za-z0-9]{34}\b"),
        ("Slack token", b"xoxb-", rb"\bxoxb-[0-9]{8,}-[0-9A-Za-z-]{20}"),
        ("Slack token", b"xoxp-", rb"\bxoxp-[0-9]{8,}-[0-9A-Za-z-]{20}"),
        ("Google API key", b"AIza", rb"\bAIza[0-9A-Za-z_-]{35}\b"),
        ("npm token", b"npm_", rb"\bnpm_[A-Za-z0-9]{36}\b"),
        ("PyPI token", b"pypi-AgE", rb"\bpypi-AgE[A-Za-z0-9_-]{50}"),
        ("OpenAI key", b"sk-proj-", rb"\bsk-proj-[A-Za-z0-9_-]{40}"),
        ("Anthropic key", b"sk-ant-", rb"\bsk-ant-[A-Za-z0-9_-]{40}"),
        ("NVIDIA key", b"nvapi-", rb"\bnvapi-[A-Za-z0-9_-]{60}"),
    )
)


class Content(NamedTuple):
    """Facts of one file's bytes.

    marks: "secret: KIND", "pyc: timestamp" (valid by its source's mtime), "elf: …" (damaged, and how)
    text:  the bytes themselves where KEPT wants them
    """

    size: int
    sha256: str
    elf: elf.Elf | None = None
    marks: tuple[str, ...] = ()
    text: bytes | None = None


def examine(path: str, size: int, chunks: Iterable[bytes]) -> Content:
    """Read `size` bytes from `chunks` once and say what they are. Never raises for odd content: it becomes a mark."""
    stream = iter(chunks)
    first = next(stream, b"")
    if first[:4] == elf.MAGIC:
        return _examine_elf(path, size, first, stream)
    if size <= MAX_TEXT:
        data = first if len(first) == size else b"".join((first, *stream))
        return Content(size, hashlib.sha256(data).hexdigest(), None, _marks(path, data), _kept(path, data))
    digest = hashlib.sha256(first)
    for chunk in stream:
        digest.update(chunk)
    return Content(size, digest.hexdigest())


def _examine_elf(path: str, size: int, first: bytes, stream: Iterable[bytes]) -> Content:
    digest = hashlib.sha256(first)
    if size <= IN_MEMORY:
        data = first if len(first) == size else b"".join((first, *stream))
        digest.update(memoryview(data)[len(first) :])
        return _elf_content(path, digest.hexdigest(), data)
    with tempfile.TemporaryFile() as file:
        file.write(first)
        for chunk in stream:
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            return _elf_content(path, digest.hexdigest(), mapped)


def _elf_content(path: str, sha256: str, data: elf.Buffer) -> Content:
    try:
        return Content(len(data), sha256, elf.parse(data, path))
    except elf.ElfError as error:
        return Content(len(data), sha256, None, (f"elf: {error.what}",))


def _kept(path: str, data: bytes) -> bytes | None:
    return data if KEPT.fullmatch(path) else None


def _marks(path: str, data: bytes) -> tuple[str, ...]:
    if path.endswith(".pyc"):
        # https://docs.python.org/3/reference/import.html#pyc-invalidation: bit 0 of the flags says hash, not mtime.
        return ("pyc: timestamp",) if len(data) >= 16 and not data[4] & 1 else ()
    if b"\0" in data[:1024]:
        return ()
    found = {name for name, needle, pattern in _SECRETS if needle in data and pattern.search(data)}
    return tuple(f"secret: {name}" for name in sorted(found))
