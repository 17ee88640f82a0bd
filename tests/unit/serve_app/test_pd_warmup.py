"""Warm-up of every prefill replica."""

from __future__ import annotations

import asyncio
from itertools import cycle

import pytest
from serve_app.pd import warmup


def test_every_replica_gives_a_token_and_a_new_set_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "PAUSE_S", 0.01)
    replicas: list[frozenset[str] | None] = [None]
    picks = cycle(["a", "a", "b"])
    asked: list[str] = []

    async def one() -> str:
        await asyncio.sleep(0)
        asked.append(next(picks))
        if len(asked) == 1:
            raise RuntimeError("not there yet")
        return asked[-1]

    async def scenario() -> None:
        work = warmup.Warmup(lambda: replicas[0], one)
        task = asyncio.create_task(work.run())
        await asyncio.sleep(0.05)
        assert not work.done
        assert asked == []
        replicas[0] = frozenset({"r1", "r2"})
        await asyncio.sleep(0.1)
        assert work.done
        assert {"a", "b"} <= set(asked)
        replicas[0] = frozenset({"r3"})
        assert not work.done
        await asyncio.sleep(0.1)
        assert work.done
        replicas[0] = frozenset()
        assert not work.done
        task.cancel()

    asyncio.run(scenario())
