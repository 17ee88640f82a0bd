"""The circuit: one failure opens it, a probe closes it, no request pays."""

from __future__ import annotations

import asyncio

from serve_app.pd.circuit import Circuit


def test_it_opens_once_and_closes_by_itself() -> None:
    changes: list[tuple[bool, str]] = []
    answers = iter([False, RuntimeError("dead"), True])

    async def probe() -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def scenario() -> None:
        circuit = Circuit(probe, 0.01, lambda is_open, reason: changes.append((is_open, reason)))
        assert not circuit.open
        circuit.trip("died")
        circuit.trip("silent")
        assert circuit.open
        assert circuit.reason == "died"
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not circuit.open:
                break
        assert not circuit.open
        circuit.trip("again")
        assert circuit.open

    asyncio.run(scenario())
    assert changes[:2] == [(True, "died"), (False, "died")]
    assert changes[2] == (True, "again")
