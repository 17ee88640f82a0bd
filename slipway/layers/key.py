"""Layer keys: the name of a layer before it is made.

A key is the sha256, in hex, of one JSON document:

    {"compressor": "zstd-1.5.7-level3-plain", "format": {"key": 1, "tar": 1}, "inputs": {…}, "kind": "wheels"}

written canonically: keys sorted, no spaces, no escapes beyond those JSON demands, UTF-8. Numbers are integers (floats
have no one spelling and are refused), sets have no order and are refused too. Two layers with one key have the same
bytes; whatever can change a byte stands in the document, and nothing else does: no path of this machine, no clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from slipway.layers import blob, tar

FORMAT = 1
"""Raise it when the document's form changes."""


def layer_key(kind: str, inputs: Mapping[str, Any]) -> str:
    """The key of a layer of this `kind` ("wheels", "debian", …) made from `inputs`: 64 hex digits."""
    return hashlib.sha256(canonical(key_document(kind, inputs))).hexdigest()


def key_document(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What `layer_key` hashes; kept beside the layer so that a difference between two keys can be explained."""
    return {
        "kind": kind,
        "inputs": dict(inputs),
        "format": {"key": FORMAT, "tar": tar.FORMAT},
        "compressor": blob.compressor_name(),
    }


def canonical(document: object) -> bytes:
    """`document` as canonical JSON. Raises TypeError for what has no single spelling."""
    _check(document, "document")
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


def _check(value: object, where: str) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{where}: {name!r} is no string; JSON would turn it into one")
            _check(inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            _check(inner, f"{where}[{place}]")
    elif not isinstance(value, str | int | bool | None):
        raise TypeError(f"{where}: {type(value).__name__} has no canonical JSON form")
