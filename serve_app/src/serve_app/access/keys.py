"""API keys from a file that may change while the service runs.

    default: {requests_per_minute: 600}          # what a key has that says nothing itself
    keys:
      - {name: alice, sha256: 5e88…, tokens_per_minute: 100000, concurrent: 8}
      - {name: bob, key: sk-…}

`sha256` is the key's hash in hexadecimal (`printf %s KEY | sha256sum`), so that the file gives nothing away; `key` is
the key itself. A key that is compared is compared in constant time, with all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serve_app.config import document, known_keys
from serve_app.errors import ConfigError, Problem

logger = logging.getLogger("ray.serve")
LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent")
SHORTEST = 16
"""A shorter key could be guessed from its hash."""
LOOK_S = 1.0
"""How often the file is looked at, at most."""


@dataclass(frozen=True)
class Key:
    """name: for logs and metrics. digest: sha256 of the key. The limits: None is none."""

    name: str
    digest: bytes = field(repr=False)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None


def read(path: Path) -> tuple[Key, ...]:
    """The keys of a file. Raises ConfigError with every problem; no problem quotes a key."""
    return of(document.read(path))


def of(found: document.Document) -> tuple[Key, ...]:
    """The same from a document."""
    problems: list[Problem] = []
    data = found.data if isinstance(found.data, dict) else {}
    if not isinstance(data.get("keys"), list) or not data["keys"]:
        problems.append(Problem("keys", "must be a list of keys", "write keys: [{name: …, sha256: …}]"))
    problems += [Problem(str(name), "unknown key", known_keys.remedy(str(name), ["keys", "default"]))
                 for name in data if name not in ("keys", "default")]  # fmt: skip
    default = data.get("default") or {}
    problems += _wrong_limits(default, "default", LIMITS)
    keys: list[Key] = []
    for index, entry in enumerate(data["keys"] if not problems else []):
        at = f"keys[{index}]"
        wrong = _wrong_limits(entry, at, (*LIMITS, "name", "key", "sha256")) or _wrong_secret(entry, at)
        problems += wrong
        if wrong:
            continue
        name, secret = entry["name"], entry.get("key")
        digest = hash_of(secret) if secret is not None else bytes.fromhex(entry["sha256"])
        if name in [key.name for key in keys]:
            problems.append(Problem(f"{at}.name", f"{name!r} stands twice", "give each key its own name"))
        if digest in [key.digest for key in keys]:
            problems.append(Problem(at, "is the same key as another one"))
        limits = {limit: entry.get(limit, default.get(limit)) for limit in LIMITS}
        keys.append(Key(name, digest, **limits))
    found.refuse(problems)
    return tuple(keys)


def _wrong_limits(entry: Any, at: str, known: tuple[str, ...]) -> list[Problem]:
    if not isinstance(entry, dict):
        return [Problem(at, "must be a mapping")]
    problems = [Problem(f"{at}.{name}", "unknown key", known_keys.remedy(str(name), known))
                for name in entry if name not in known]  # fmt: skip
    for name in LIMITS:
        value = entry.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            problems.append(Problem(f"{at}.{name}", "must be a whole number, 1 or more"))
    return problems


def _wrong_secret(entry: dict[str, Any], at: str) -> list[Problem]:
    problems = []
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        problems.append(Problem(at, "name is missing"))
    plain, hashed = entry.get("key"), entry.get("sha256")
    if (plain is None) == (hashed is None):
        problems.append(Problem(at, "must have either key or sha256"))
    elif plain is not None and (not isinstance(plain, str) or len(plain) < SHORTEST):
        problems.append(Problem(f"{at}.key", f"must be text of {SHORTEST} characters or more"))
    elif hashed is not None and not _is_digest(hashed):
        problems.append(Problem(f"{at}.sha256", "must be 64 hexadecimal digits", "printf %s KEY | sha256sum"))
    return problems


def _is_digest(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and all(digit in "0123456789abcdefABCDEF" for digit in text)


def hash_of(secret: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(secret.encode()).digest()


class KeyRing:
    """The keys of a file, as they are now. A file that can't be read any more changes nothing, and is told of."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self.clock = clock
        self._seen = self._stamp()
        self._looked = clock()
        self.keys = read(self.path)

    def find(self, secret: str) -> Key | None:
        """The key, or None. Takes as long for a wrong one as for a right one."""
        self._look()
        digest = hash_of(secret)
        match: Key | None = None
        for key in self.keys:
            if hmac.compare_digest(key.digest, digest):
                match = key
        return match

    def _look(self) -> None:
        now = self.clock()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self.keys = read(self.path)
            logger.info("API keys read again: %d", len(self.keys))
        except ConfigError as error:
            logger.error("API keys stay as they were: %s", error)

    def _stamp(self) -> tuple[int, int, int] | None:
        """Follows links: Kubernetes changes a mounted secret by changing one."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - one system call
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)
