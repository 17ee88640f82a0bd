"""Whatever happens to a wheel's bytes, it is refused with a message, or installs exactly what it did before."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.errors import SlipwayError
from slipway.layers.wheels import entries_of
from slipway.lock.model import Wheel
from slipway.wheel.content import OpenWheel
from slipway.wheel.paths import Venv
from tests.unit.wheel.maker import Spec, make_wheel

SPEC = Spec(
    files={
        "demo/__init__.py": "x = 1\n" * 30,
        "demo/data.bin": bytes(range(256)) * 3,
        "demo/lib.so.1": "code",
        "demo/lib.so": "lib.so.1",
        "demo-1.0.data/scripts/tool": "#!python\nprint(1)\n",
        "demo-1.0.data/headers/h.h": "int x;\n",
    },
    modes={"demo/lib.so": stat.S_IFLNK | 0o777},
    entry_points="[console_scripts]\nrun = demo:main\n",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Wheel, bytes, dict[str, bytes]]:
    wheel, path = make_wheel(tmp_path_factory.mktemp("wheel"), SPEC)
    with OpenWheel(path, wheel, Venv()) as opened:
        return wheel, path.read_bytes(), contents(opened)


def contents(opened: OpenWheel) -> dict[str, bytes]:
    return {e.path: b"".join(e.read()) if e.read else e.target.encode() for e in entries_of(opened)}


EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)


@settings(max_examples=250, deadline=None)
@given(EDITS, st.integers(0, 3), st.booleans())
def test_damage(
    sound: tuple[Wheel, bytes, dict[str, bytes]],
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[int, int]],
    cut: int,
    excused: bool,
) -> None:
    wheel, raw, before = sound
    damaged = bytearray(raw)
    for place, value in edits:
        damaged[place % len(raw)] = value
    path = tmp_path_factory.getbasetemp() / wheel.file
    path.write_bytes(damaged[: len(raw) - cut * 7])
    try:
        with OpenWheel(path, wheel, Venv(), excuse="reason" if excused else None) as opened:
            after = contents(opened)
    except SlipwayError as error:
        assert wheel.file in str(error)
        return
    kept = {path for path in before if not path.endswith("/RECORD")} if excused else before.keys()
    assert all(after.get(path) == before[path] for path in kept)
    assert after.keys() == before.keys()
