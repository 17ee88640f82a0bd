"""Lines of a JSON log."""

from __future__ import annotations

import io
import json

import pytest
from serve_app.run.phases import Reporter

LINE = '{"event": "request", "status": 200, "text": "(pid=3) {}"}'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"\x1b[36m(ServeReplica:default:Ingress pid=12)\x1b[0m {LINE}", json.loads(LINE)),
        (f"(ServeReplica:default:Ingress pid=12, ip=10.0.0.1) {LINE}", json.loads(LINE)),
        (LINE, json.loads(LINE)),
        (
            "(ServeReplica:x pid=12) INFO {not json",
            {"event": "log", "message": "(ServeReplica:x pid=12) INFO {not json"},
        ),
        ("plain (pid=3)", {"event": "log", "message": "plain (pid=3)"}),
    ],
)
def test_every_line_is_json_and_a_requests_line_is_itself(line: str, expected: object) -> None:
    out = io.StringIO()
    Reporter("json", out=out).foreign(line)
    assert json.loads(out.getvalue()) == expected


def test_text_stays_as_it_is() -> None:
    out = io.StringIO()
    Reporter("text", out=out).foreign("(x pid=1) {}")
    assert out.getvalue() == "(x pid=1) {}\n"
