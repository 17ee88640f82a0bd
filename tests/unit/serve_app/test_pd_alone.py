"""Side channels of a machine that is alone."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("yaml")

from serve_app.pd import alone  # noqa: E402


def test_only_where_the_machine_is_alone_and_nobody_says_otherwise() -> None:
    given: dict[str, Any] = {
        "prefill_config": {},
        "decode_config": {"runtime_env": {"env_vars": {alone.HOST: "10.0.0.1", "A": "1"}, "working_dir": "."}},
    }
    assert alone.bind(given, {}) == given
    bound = alone.bind(given, {alone.ALONE: "1"})
    assert bound["prefill_config"]["runtime_env"]["env_vars"] == {alone.HOST: "127.0.0.1"}
    assert bound["decode_config"] == given["decode_config"]
    assert given["prefill_config"] == {}, "what was given is left as it was"
