"""Which bytes belong to which key: the committed lists that say what of a shared layer cache may be taken.

    locks/layers/<release>-<variant>-<arch>.txt     <key> <digest> <diff_id> <bytes of tar> <name>, one layer a line

A key says what a layer is made from and not what it is: whoever can write to a cache could put anything under a key. A
list is made by `build --record-layers` where the layers were built, and reviewed like a lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import InvalidInput, Problem, WrongArtifact
from slipway.host.replace import write_whole
from slipway.layers.blob import Blob

HEAD = "# Layers by key, for `build --layer-cache`. Made by: python3 build.py build --record-layers\n"
_LINE = re.compile(r"([0-9a-f]{64}) (sha256:[0-9a-f]{64}) (sha256:[0-9a-f]{64}) (\d+) (\S+)")


@dataclass(frozen=True)
class Known:
    """What a list says of one key."""

    digest: str
    diff_id: str
    tar_size: int
    name: str


def path(folder: Path, label: str) -> Path:
    """The list of one image, beside the locks."""
    return folder / "layers" / f"{label}.txt"


def read(file: Path) -> dict[str, Known]:
    """Key → what belongs to it; nothing where there is no list. Raises InvalidInput naming each wrong line."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    found: dict[str, Known] = {}
    problems = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        match = _LINE.fullmatch(text)
        if match:
            found[match[1]] = Known(match[2], match[3], int(match[4]), match[5])
        elif text:
            problems.append(Problem(str(file), number, "not `key digest diff_id bytes name`"))
    if problems:
        raise InvalidInput("a list of layers can't be read", problems)
    return found


def write(file: Path, layers: Iterable[tuple[str, str, Blob]]) -> None:
    """layers: (name, key, blob). Sorted by name, so that a change is one line of a diff."""
    lines = sorted(f"{key} {blob.digest} {blob.diff_id} {blob.tar_size} {name}\n" for name, key, blob in layers)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, (HEAD + "".join(sorted(lines, key=lambda line: line.split()[4]))).encode())


def agrees(known: Mapping[str, Known], key: str, blob: Blob) -> bool | None:
    """Whether a list binds `key` to this blob; None where it does not know the key."""
    entry = known.get(key)
    return None if entry is None else (entry.digest, entry.diff_id) == (blob.digest, blob.diff_id)


def hold(known: Mapping[str, Known], layers: Iterable[tuple[str, str, Blob]], file: object) -> None:
    """Hold layers that are here (name, key, blob) against a list. Raises WrongArtifact naming each that differs."""
    wrong = [
        f"{name} ({key[:12]}): {blob.digest} here, {known[key].digest} in the list"
        for name, key, blob in layers
        if agrees(known, key, blob) is False
    ]
    if wrong:
        raise WrongArtifact(
            f"{len(wrong)} layers are not what the committed list says\n" + "\n".join(f"  {line}" for line in wrong),
            where=file,
            why="the list lies, the cache here does, or making the layer is not deterministic",
            remedy="`python3 build.py verify` makes all layers again and says which; then record them anew",
        )
