"""What a file's bytes say about it, taken while they stream by: digest, ELF facts, marks, and a few kept texts."""

from __future__ import annotations

import hashlib
import mmap
import re
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from slipway.errors import MissingError
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
    r"|(.*/)?site-packages/(serve_app/seams\.json|ray/llm/_internal/serve/([^/]+/)+[^/]+\.py|ray/serve/handle\.py"
    r"|ray/serve/_private/(request_router/)?[^/]*router\.py|vllm/distributed/kv_transfer/kv_connector/v1/nixl/[^/]+\.py)"
    r"|var/lib/dpkg/(status|status\.d/[^/]+|info/[^/]+\.list)"
)
"""Paths whose content gates and owners need: a full match."""

_SECRETS: tuple[tuple[re.Pattern[bytes], tuple[tuple[str, re.Pattern[bytes]], ...]], ...] = tuple(
    (re.compile(trigger), tuple((name, re.compile(pattern)) for name, pattern in patterns))
    for trigger, patterns in (
        (
            rb"PRIVATE KEY",
            # A header alone is what parsers and tests of them hold; a key has lines of base64 after it.
            (
                (
                    "private key",
                    rb"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:\\n|\\r|\s)+(?:[A-Z][A-Za-z-]+: [^\n]*\s+)*"
                    rb"[\"' ]*[A-Za-z0-9+/=]{40}",
                ),
            ),
        ),
        (
            rb"A(?:KIA[A-Z2-7]{16}|Iza[0-9A-Za-z_-]{35})",
            (
                ("AWS access key", rb"AKIA(?<![A-Z0-9]AKIA)(?![A-Z0-9]*EXAMPLE)[A-Z2-7]{16}(?![A-Z0-9])"),
                ("Google API key", rb"AIza(?<!\wAIza)[0-9A-Za-z_-]{35}(?![\w-])"),
            ),
        ),
        (
            rb"-[A-Za-z0-9][A-Za-z0-9_-]{19}",
            (
                ("GitLab token", rb"glpat-(?<!\wglpat-)[A-Za-z0-9_-]{20}(?![\w-])"),
                ("Slack token", rb"xox[bp]-[0-9]{8,}-[0-9A-Za-z-]{20}"),
                ("PyPI token", rb"pypi-AgE[A-Za-z0-9_-]{50}"),
                ("OpenAI key", rb"sk-proj-[A-Za-z0-9_-]{40}"),
                ("Anthropic key", rb"sk-ant-[A-Za-z0-9_-]{40}"),
                ("NVIDIA key", rb"nvapi-[A-Za-z0-9_-]{60}"),
            ),
        ),
        (
            rb"_[A-Za-z0-9]{34}",
            (
                ("GitHub token", rb"gh[ops]_(?<!\wgh[ops]_)[A-Za-z0-9]{36}(?!\w)"),
                ("Hugging Face token", rb"hf_(?<!\whf_)[A-Za-z0-9]{34}(?!\w)"),
                ("npm token", rb"npm_(?<!\wnpm_)[A-Za-z0-9]{36}(?!\w)"),
            ),
        ),
        (rb"github_pat_", (("GitHub token", rb"github_pat_[A-Za-z0-9_]{60}"),)),
    )
)
"""(trigger, kinds): kinds are looked for where the trigger matches. Both begin with a literal, which `re` finds ten
times as fast as anything else; without that the search would take as long as all the rest of reading a layer."""


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
    """Read `size` bytes from `chunks` once and say what they are. Odd content raises nothing: it becomes a mark.

    Raises MissingError when the temporary folder is full.
    """
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
        try:
            file.write(first)
            for chunk in stream:
                digest.update(chunk)
                file.write(chunk)
            file.flush()
        except OSError as error:
            raise MissingError(
                f"no room for a temporary copy of {path}: {error.strerror}",
                where=tempfile.gettempdir(),
                remedy=f"free {size} bytes there, or set TMPDIR to a folder with more room",
            ) from error
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
    return tuple(f"secret: {name}" for name in secrets(data))


def secrets(data: bytes) -> list[str]:
    """Kinds of secrets that `data` holds, sorted. The patterns are those that the issuers document."""
    kinds = {
        name
        for trigger, patterns in _SECRETS
        if trigger.search(data)
        for name, pattern in patterns
        if pattern.search(data)
    }
    return sorted(kinds)
