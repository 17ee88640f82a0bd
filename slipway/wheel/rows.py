"""Holds a wheel's RECORD against what the wheel holds."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from slipway.lock.model import Wheel
from slipway.wheel import record
from slipway.wheel.archive import Archive
from slipway.wheel.record import Row
from slipway.wheel.refused import RefusedWheel

_UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")
"""Files of dist-info whose hashes RECORD can't hold."""


def rows_of(archive: Archive, dist_info: str, content: bytes, wheel: Wheel) -> dict[str, Row]:
    """What RECORD says of each member; that the bytes agree is found out when they are read.

    Raises RefusedWheel where RECORD and archive don't name the same files and sizes.
    """
    rows = record.parse(content, wheel.file, f"{dist_info}/RECORD")
    wrong = _complete(rows, archive, _unlisted(dist_info))
    if wrong:
        raise contradiction(wheel, wrong)
    return rows


def real_rows_of(archive: Archive, dist_info: str, content: bytes, wheel: Wheel) -> tuple[dict[str, Row], list[str]]:
    """The same for a wheel that may contradict its RECORD: all members are hashed. Also names those that differ."""
    rows = record.parse(content, wheel.file, f"{dist_info}/RECORD")
    unlisted = _unlisted(dist_info)
    _complete(rows, archive, unlisted)
    real, differ = {}, []
    for member in archive.members:
        old = rows.get(member.name, Row())
        if member.name in unlisted:
            real[member.name] = old
            continue
        digest = hashlib.new(old.algorithm or "sha256")
        for chunk in archive.chunks(member):
            digest.update(chunk)
        real[member.name] = Row(record.spell(digest.name, digest.digest()), member.size)
        if real[member.name] != old:
            differ.append(member.name)
    return real, differ


def contradiction(wheel: Wheel, wrong: Sequence[str]) -> RefusedWheel:
    """The error for members that are not what RECORD says."""
    shown = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
    return RefusedWheel(
        wheel.file,
        f"its RECORD contradicts its content: {shown}",
        why="what is installed is not what the wheel's maker listed",
        remedy="pin another version, or, where the wheel is known to be like that, excuse it in versions.toml: "
        f'excuses."{wheel.sha256}" = "the reason"',
    )


def _unlisted(dist_info: str) -> set[str]:
    return {f"{dist_info}/{name}" for name in _UNLISTED}


def _complete(rows: dict[str, Row], archive: Archive, unlisted: Collection[str]) -> list[str]:
    """Fill in what RECORD may leave open; what is wrong with the rest."""
    wrong = []
    for member in archive.members:
        if member.name in unlisted:
            rows[member.name] = Row("", member.size)
        elif (row := rows.get(member.name)) is None:
            wrong.append(f"{member.name}: not in RECORD")
        elif not row.hash:
            wrong.append(f"{member.name}: no hash in RECORD")
        elif row.size is None:
            rows[member.name] = row._replace(size=member.size)
        elif row.size != member.size:
            wrong.append(f"{member.name}: {member.size} bytes, RECORD says {row.size}")
    there = {member.name for member in archive.members}
    return wrong + [f"{path}: in RECORD, but not there" for path in rows if path not in there and path not in unlisted]
