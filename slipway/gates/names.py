"""The names under which versions.toml excuses findings: light to import, for whoever only validates them."""

from __future__ import annotations

NAMES = (
    "abi",
    "budget",
    "copies",
    "driver",
    "duplicates",
    "layering",
    "ldcache",
    "leftovers",
    "ownership",
    "pth",
    "runpath",
    "seams",
    "secrets",
    "setuid",
    "ssh",
    "user",
    "writable",
)
