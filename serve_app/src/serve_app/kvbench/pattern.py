"""Contents that are different for every case, and digests of them piece by piece."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Any

from serve_app.kvbench.plan import Case

STEP = 0x9E3779B97F4A7C15
"""Odd, so that no two of 2**64 words are equal: a piece that went to the wrong place is found."""


def places(case: Case, seed: int) -> tuple[list[int], list[int]]:
    """Offsets of the pieces on the initiator, in order, and on the target, shuffled: vLLM's blocks lie scattered, and a
    transfer that mixes up its pieces must not look right.
    """
    there = [index * case.piece for index in range(case.descriptors)]
    here = list(there)
    random.Random(seed).shuffle(there)  # noqa: S311 - an order, no secret
    return here, there


def fill(array: Any, seed: int) -> None:
    """Write the pattern of `seed` over a numpy array of bytes."""
    import numpy as np

    words = array.size // 8
    start = (seed * 0xD1342543DE82EF95 + 1) % (1 << 64)
    with np.errstate(over="ignore"):
        array[: words * 8].view(np.uint64)[:] = np.arange(words, dtype=np.uint64) * np.uint64(STEP) + np.uint64(start)
    array[words * 8 :] = seed % 251


def digest(array: Any, offsets: Sequence[int], piece: int) -> str:
    """sha256 of the pieces, in the order given."""
    whole = hashlib.sha256()
    view = memoryview(array)
    for offset in offsets:
        whole.update(view[offset : offset + piece])
    return whole.hexdigest()
