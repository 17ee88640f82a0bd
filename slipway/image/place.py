"""The folders that a build writes into, looked at before minutes of work rather than after them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from slipway.errors import MissingError, UsageError

OURS = ("blobs", "index.json", "oci-layout", "refused.json", "rootfs.tar")
"""What builds leave in an output folder, also with more behind a dot while it is being written."""

NOBODYS = ("lost+found",)


def check_writable(folder: Path, option: str) -> None:
    """Make the folder. Raises MissingError, naming the option that chooses another, where it can't be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = "" if os.access(folder, os.W_OK | os.X_OK) else "this user may not"
    except OSError as error:
        why = str(error.strerror)
    if why:
        raise MissingError(
            f"the {option} folder can't be written to: {why}",
            where=folder,
            why="the build would have nowhere to put what it makes",
            remedy=f"name another folder with --{option}, or make this one writable",
        )


def check_output(folder: Path) -> None:
    """Raises MissingError where the folder can't be written to, UsageError where it holds anything but one image:
    writing an image there mixes with it, and drops the blobs of other images."""
    check_writable(folder, "output")
    if strange := sorted(_strange(folder)):
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise UsageError(
            f"the output folder holds other things: {', '.join(strange[:3])}{more}",
            where=folder,
            why="an image is a folder of its own: what is no blob of it would be mixed with it or removed",
            remedy=f"--output {folder / 'image'}, or another folder that is empty or not there yet",
        )
    if (count := _images(folder / "index.json")) > 1:
        raise UsageError(
            f"the output folder is a layout of {count} images",
            where=folder,
            why="a build replaces the image in its folder; the others would be lost",
            remedy="name another folder with --output",
        )


def _strange(folder: Path) -> Iterator[str]:
    for path in folder.iterdir():
        ours = path.name in OURS or path.name.startswith(tuple(f"{name}." for name in OURS))
        if not ours and path.name not in NOBODYS and not path.name.startswith("."):
            yield path.name


def _images(index: Path) -> int:
    try:
        return len(json.loads(index.read_bytes())["manifests"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0  # none, or half of one: it is written anew
