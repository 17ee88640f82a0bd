"""The tags of an image: a pure function of its labels.

    immutable  2.60.0-vllm0.29.0-nixl1.3.2-cu13-py311-debian12-1a2b3c4d5e     never moves
    moving     2.60-cuda                                                       the newest image of release and variant

1. The parts are Ray's, vLLM's and NIXL's locked versions without their local part (`+cpu`), the major version of CUDA
   (`cpu` where the lock has no CUDA runtime), Python, Debian, and the first PIN_DIGITS digits of the lock file's
   sha256: `sha256sum locks/2.60-cuda-amd64.toml`.
2. An architecture other than amd64 stands behind both (`-arm64`). An index over several architectures has no
   architecture behind it, and its digits are those of the sha256 over its images' lock hashes, sorted, one a line.
3. `-rN` stands behind an immutable tag when the image was made again from the same lock with other code (--revision).
4. A CUDA image whose fabric is not the EFA installer's is for development. What its fabric is stands behind all its
   tags (`-source-fabric`), and it can't be given a tag that looks like a production image's without that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.errors import GateRefused, UsageError

PIN_DIGITS = 10
LONGEST = 128
"""Characters of a tag (distribution specification)."""

_PRODUCTION = re.compile(r"\d+\.\d+(-cuda|\.\d+-vllm\S+)\S*")


@dataclass(frozen=True)
class Tags:
    """immutable never comes to mean another image; moving ones are set with every push."""

    immutable: str
    moving: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (self.immutable, *self.moving)


def image_tags(labels: Mapping[str, str], architecture: str, revision: int = 0) -> Tags:
    """The tags of one architecture's image. Raises UsageError for an image whose labels don't say what it is."""
    lock = _label(labels, "io.slipway.lock").removeprefix("sha256:")
    return _tags(labels, lock, "" if architecture == "amd64" else architecture, revision)


def index_tags(images: Sequence[Mapping[str, str]], revision: int = 0) -> Tags:
    """The tags of an index over images of one release and variant, by their labels. Raises UsageError when they are
    of several."""
    for name in ("io.slipway.release", "io.slipway.variant", "io.slipway.fabric"):
        found = sorted({_label(labels, name) for labels in images})
        if len(found) != 1:
            raise UsageError(f"an index holds one image for each architecture, these have {name} {', '.join(found)}")
    locks = sorted(_label(labels, "io.slipway.lock") for labels in images)
    if len(locks) == 1:
        return _tags(images[0], locks[0].removeprefix("sha256:"), "", revision)
    return _tags(images[0], hashlib.sha256("\n".join(locks).encode()).hexdigest(), "", revision)


def is_development(labels: Mapping[str, str]) -> bool:
    """Whether this image must not carry a production tag: CUDA without the EFA installer's fabric."""
    return bool(labels.get("io.slipway.version.cuda")) and labels.get("io.slipway.fabric") != "installer"


def _mark(labels: Mapping[str, str]) -> str:
    """What stands behind a development image's tags: `source-fabric`; "" for all others."""
    return f"{labels.get('io.slipway.fabric') or 'unknown'}-fabric" if is_development(labels) else ""


def check_given(tag: str, labels: Mapping[str, str]) -> None:
    """Raises UsageError for what is no tag, GateRefused where a development image asks for a production tag."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", tag):
        raise UsageError(f"{tag!r} is not a tag", remedy="letters, digits, _ . and -, at most 128, no . or - in front")
    mark = _mark(labels)
    if mark and mark not in tag and _PRODUCTION.fullmatch(tag):
        raise GateRefused(
            f"this image may not be called {tag}: its fabric is {labels.get('io.slipway.fabric')!r}",
            why="production images carry the fabric of the EFA installer; who pulls this tag relies on it",
            remedy=f'set fabric = "installer" for the variant in versions.toml, or tag it …-{mark}',
        )


def _tags(labels: Mapping[str, str], lock: str, architecture: str, revision: int) -> Tags:
    versions = {name: _label(labels, f"io.slipway.version.{name}") for name in ("ray", "vllm", "nixl")}
    cuda = labels.get("io.slipway.version.cuda", "")
    parts = [
        plain(versions["ray"]),
        f"vllm{plain(versions['vllm'])}",
        f"nixl{plain(versions['nixl'])}",
        f"cu{cuda.partition('.')[0]}" if cuda else "cpu",
        f"py{_label(labels, 'io.slipway.version.python').replace('.', '')}",
        f"debian{_label(labels, 'io.slipway.version.debian')}",
        lock[:PIN_DIGITS],
    ]
    behind = [part for part in (architecture, _mark(labels)) if part]
    again = [f"r{revision}"] if revision else []
    moving = "-".join([_label(labels, "io.slipway.release"), _label(labels, "io.slipway.variant"), *behind])
    immutable = "-".join([*parts, *behind, *again])
    if len(immutable) > LONGEST:
        raise UsageError(f"the tag {immutable} is longer than the {LONGEST} characters that registries take")
    return Tags(immutable, (moving,))


def plain(version: str) -> str:
    """A version without its local part, with nothing in it that a tag can't hold: `0.29.0+cpu` → `0.29.0`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", version.partition("+")[0])


def _label(labels: Mapping[str, str], name: str) -> str:
    if value := labels.get(name):
        return value
    raise UsageError(
        f"the image has no label {name}, so its tags are not known",
        remedy="build it again with this version of build.py, or name its tags with --tag",
    )
