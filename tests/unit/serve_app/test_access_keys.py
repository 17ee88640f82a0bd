"""API keys from a file, and what each may use."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("yaml")

from serve_app.access import keys, limits  # noqa: E402
from serve_app.access.keys import Key, KeyRing  # noqa: E402
from serve_app.access.limits import Meter, Meters, Refused  # noqa: E402
from serve_app.config import document  # noqa: E402
from serve_app.errors import ConfigError  # noqa: E402

SECRET = "sk-0123456789abcdef"  # noqa: S105


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_plain_and_hashed_keys_are_found(tmp_path: Path) -> None:
    hashed = hashlib.sha256(b"another-secret-key").hexdigest()
    file = write(
        tmp_path / "keys.yaml",
        f"""
default: {{requests_per_minute: 60}}
keys:
  - {{name: alice, key: {SECRET}, concurrent: 2}}
  - {{name: bob, sha256: {hashed.upper()}, requests_per_minute: 5}}
""",
    )
    ring = KeyRing(str(file))
    alice, bob = ring.find(SECRET), ring.find("another-secret-key")
    assert alice is not None and (alice.name, alice.requests_per_minute, alice.concurrent) == ("alice", 60, 2)
    assert bob is not None and (bob.name, bob.requests_per_minute) == ("bob", 5)
    assert ring.find("sk-0123456789abcdeF") is None
    assert ring.find("") is None


def test_every_problem_at_once_and_no_key_in_it() -> None:
    text = """
default: {requests_per_minut: 60}
key: []
keys:
  - {name: a, key: geheim}
"""
    with pytest.raises(ConfigError) as first:
        keys.of(document.parse(text))
    assert "did you mean requests_per_minute?" in str(first.value)
    assert "did you mean keys?" in str(first.value)
    bad = f"""
keys:
  - {{name: a, key: geheim}}
  - {{key: {SECRET}}}
  - {{name: c, sha256: 12}}
  - {{name: d, key: {SECRET}, sha256: 12}}
  - {{name: e, key: {SECRET}, concurrent: 0}}
  - {{name: f, key: {SECRET}}}
  - {{name: f, key: {SECRET}}}
"""
    with pytest.raises(ConfigError) as second:
        keys.of(document.parse(bad))
    paths = [problem.path for problem in second.value.problems]
    assert {"keys[0].key", "keys[1]", "keys[2].sha256", "keys[3]", "keys[4].concurrent", "keys[6].name"} <= set(paths)
    assert "geheim" not in str(second.value) and SECRET not in str(second.value)


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(tmp_path: Path) -> None:
    clock = Clock()
    file = write(tmp_path / "keys.yaml", f"keys: [{{name: a, key: {SECRET}}}]")
    ring = KeyRing(str(file), clock)
    replacement = write(tmp_path / "new.yaml", "keys: [{name: b, key: sk-new-new-new-new-new}]")
    replacement.replace(file)
    assert ring.find(SECRET) is not None  # looked at a moment ago
    clock.now += keys.LOOK_S
    assert ring.find(SECRET) is None
    found = ring.find("sk-new-new-new-new-new")
    assert found is not None and found.name == "b"
    write(file, "keys: [")
    clock.now += keys.LOOK_S
    assert ring.find("sk-new-new-new-new-new") is not None
    file.unlink()
    clock.now += keys.LOOK_S
    assert ring.find("sk-new-new-new-new-new") is not None


def test_a_wrong_key_is_compared_with_all_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = "".join(f"{{name: k{number}, key: {SECRET}{number}}}," for number in range(5))
    ring = KeyRing(str(write(tmp_path / "k", f"keys: [{names}]")))
    compared: list[bytes] = []
    real = keys.hmac.compare_digest
    monkeypatch.setattr(keys.hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    for secret in (f"{SECRET}0", f"{SECRET}4", "wrong"):
        compared.clear()
        ring.find(secret)
        assert len(compared) == 5


def test_requests_per_minute_come_back_evenly() -> None:
    meter = Meter(Key("a", b"", requests_per_minute=60), now=0.0)
    for _ in range(60):
        meter.admit(1, 0.0)
    with pytest.raises(Refused) as refused:
        meter.admit(1, 0.0)
    assert refused.value.retry_after_s == 1
    meter.admit(1, 1.0)
    with pytest.raises(Refused):
        meter.admit(1, 1.5)


def test_requests_at_a_time() -> None:
    meter = Meter(Key("a", b"", concurrent=2), now=0.0)
    meter.admit(1, 0.0)
    meter.admit(1, 0.0)
    with pytest.raises(Refused):
        meter.admit(1, 0.0)
    meter.ended(1, 1)
    meter.admit(1, 0.0)


def test_tokens_are_settled_with_what_was_used() -> None:
    meter = Meter(Key("a", b"", tokens_per_minute=600), now=0.0)
    meter.admit(10, 0.0)
    meter.ended(10, 700)  # more than there was: in debt by 100
    with pytest.raises(Refused) as refused:
        meter.admit(10, 0.0)
    assert refused.value.retry_after_s == 11
    meter.admit(10, 11.0)


def test_a_prompt_above_the_limit_is_taken_once_and_paid_off() -> None:
    meter = Meter(Key("a", b"", tokens_per_minute=100), now=0.0)
    meter.admit(1000, 0.0)
    with pytest.raises(Refused) as refused:
        meter.admit(1000, 0.0)
    assert refused.value.retry_after_s == 600
    meter.admit(1000, 600.0)


def test_a_refusal_by_requests_takes_no_tokens() -> None:
    meter = Meter(Key("a", b"", requests_per_minute=1, tokens_per_minute=100), now=0.0)
    meter.admit(10, 0.0)
    with pytest.raises(Refused):
        meter.admit(10, 0.0)
    assert meter.tokens is not None and meter.tokens.level == 90


def test_limits_that_change_while_requests_run() -> None:
    meters = Meters(lambda: 0.0)
    old = Key("a", b"", concurrent=1)
    meters.of(old).admit(1, 0.0)
    new = Key("a", b"", concurrent=2)
    meters.of(new).admit(1, 0.0)
    with pytest.raises(Refused):
        meters.of(new).admit(1, 0.0)
    meters.ended(old, 1, None)
    meters.ended(new, 1, None)
    assert meters.of(new).running == 0


def test_several_processes_share_a_limit() -> None:
    meters = Meters(lambda: 0.0, parts=lambda: 2)
    meter = meters.of(Key("a", b"", requests_per_minute=10, concurrent=3))
    assert meter.requests is not None and meter.requests.limit == 5
    assert meter.concurrent == 2


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 500), st.integers(0, 500)), max_size=60))
def test_over_any_time_no_more_is_let_in_than_a_bucket_and_what_came_back(steps: list[tuple[float, int, int]]) -> None:
    bucket = limits.Bucket(limit=300, level=300, at=0.0)
    now, used = 0.0, 0.0
    for pause, amount, _ in steps:
        now += pause
        if bucket.take(amount, now) == 0.0:
            used += amount
            # What is above a bucket's worth was let in from a full one.
            assert used <= 300 + now * 300 / 60 + max(0, amount - 300) + sum(max(0, a - 300) for _, a, _ in steps)
        assert bucket.level <= 300
