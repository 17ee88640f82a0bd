"""kvbench: what is measured, and contents that show every kind of mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serve_app.errors import UsageError
from serve_app.kvbench import pattern
from serve_app.kvbench.plan import LEAST_DESCRIPTOR, Case, Plan, size, size_text


@given(st.integers(1, 1 << 40))
def test_a_size_is_read_as_it_is_printed(count: int) -> None:
    assert size(size_text(count)) == count


@pytest.mark.parametrize("text", ["", "0", "x", "-1", "1T", "2000G", "1.5M"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size|more"):
        size(text)


def test_units() -> None:
    assert [size(text) for text in ("64K", "1M", "1GiB", "100", "2kb")] == [65536, 1 << 20, 1 << 30, 100, 2048]


def test_cases_that_can_not_be_cut_are_left_out() -> None:
    plan = Plan("UCX", ops=("READ",), sizes=(64 << 10, 1 << 20), descriptors=(1, 3, 4096))
    assert list(plan.cases()) == [Case("READ", 65536, 1), Case("READ", 1 << 20, 1), Case("READ", 1 << 20, 4096)]
    assert all(case.piece >= LEAST_DESCRIPTOR for case in plan.cases())


def test_a_plan_goes_over_the_wire() -> None:
    plan = Plan("LIBFABRIC", "VRAM", ("WRITE",), (1 << 20,), (1, 2), 0.1, 5, "tcp", (0, 1))
    assert Plan.of(plan.as_json()) == plan


@pytest.mark.parametrize(
    "change",
    [{"backend": "UCX; rm"}, {"memory": "DISK"}, {"sizes": []}, {"sizes": [0]}, {"sizes": [1 << 50]}, {"extra": 1},
     {"ucx_tls": "tcp\nX=1"}],
)  # fmt: skip
def test_a_plan_from_outside_is_checked(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Plan.of({**Plan("UCX").as_json(), **change})


@given(st.integers(1, 200), st.integers(0, 1000))
def test_every_piece_has_its_own_place(count: int, seed: int) -> None:
    case = Case("READ", count * 64, count)
    here, there = pattern.places(case, seed)
    assert here == sorted(there) == [index * 64 for index in range(count)]


@pytest.mark.parametrize("lie", ["none", "half", "one byte", "swapped", "another seed", "nothing"])
def test_a_digest_tells_right_from_wrong(lie: str) -> None:
    numpy = pytest.importorskip("numpy")
    case = Case("READ", 64 << 10, 16)
    here, there = pattern.places(case, 7)
    source, copy = (numpy.zeros(case.size, dtype=numpy.uint8) for _ in range(2))
    pattern.fill(source, 7)
    for mine, theirs in zip(here, there, strict=True):
        copy[mine : mine + case.piece] = source[theirs : theirs + case.piece]
    if lie == "half":
        copy[case.size // 2 :] = 0
    elif lie == "one byte":
        copy[12345] ^= 1
    elif lie == "swapped":
        copy[: case.piece], copy[case.piece : 2 * case.piece] = (
            copy[case.piece : 2 * case.piece].copy(),
            copy[: case.piece].copy(),
        )
    elif lie == "another seed":
        pattern.fill(copy, 8)
    elif lie == "nothing":
        copy[:] = 0
    same = pattern.digest(copy, here, case.piece) == pattern.digest(source, there, case.piece)
    assert same is (lie == "none")


def test_nobody_to_measure_against_is_told_in_a_sentence() -> None:
    program = (
        "import sys; from serve_app.kvbench import channel, initiator; connect = channel.connect; "
        "channel.connect = lambda host, port: connect(host, port, 0.2); sys.exit(initiator.main())"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "serve_app" / "src")}
    plan = json.dumps(Plan("UCX").as_json())
    command = [sys.executable, "-c", program, "127.0.0.1", "1"]
    done = subprocess.run(command, input=plan, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "nobody answers at 127.0.0.1:1" in json.loads(done.stdout)["error"]
