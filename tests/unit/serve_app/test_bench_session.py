"""The order of runs and the report, with a load generator that computes its times."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path

import pytest
from serve_app.bench import load, page, report, traces, watch
from serve_app.bench.figures import Run
from serve_app.bench.load import Asked, Target
from serve_app.bench.session import Session, Settings
from serve_app.errors import UsageError

PD, ONE = Target("pd", "http://pd", "m"), Target("one", "http://one", "m")


class Fake:
    """P/D's gaps are a fifth of one node's for prompts above 200 tokens; first tokens take longer by a half."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Asked]] = []

    def __call__(self, target: Target, asked: Asked) -> Run:
        self.calls.append((target.name, asked))
        long = asked.trace.prompt > 200
        gap = 0.01 * (0.2 if target.name == "pd" and long else 1.0) * (1 + asked.seed % 5 / 100)
        first = (0.15 if target.name == "pd" else 0.1) * (1 + asked.seed % 7 / 100)
        n = asked.requests
        moved = {"kv_gb_per_s": 1.5} if target.name == "pd" else {}
        return Run((first,) * n, ((gap,) * 4,) * n, (5,) * n, 0, n * 0.1, moved)


@pytest.fixture
def told() -> tuple[Fake, dict[str, object]]:
    fake = Fake()
    session = Session(fake, PD, ONE, 1024, Settings(seeds=3, base_seed=1000), lambda _: None)
    session.result["about"] = {"model": "m <script>"}
    known = traces.standard(1024)
    return fake, session.all([known["chat"], known["rag"]])


def test_both_targets_get_the_same_requests_in_turn(told: tuple[Fake, dict[str, object]]) -> None:
    fake, _ = told
    timed = [(name, asked) for name, asked in fake.calls if not math.isinf(asked.rate)]
    for (first, a), (second, b) in zip(timed[::2], timed[1::2], strict=True):
        assert {first, second} == {"pd", "one"}
        assert a == b
    order = "".join(name[0] for name, asked in timed if asked.trace.name == "rag")
    assert order == "poo" + "ppo"


def test_no_seed_is_used_twice_on_a_target(told: tuple[Fake, dict[str, object]]) -> None:
    fake, _ = told
    for target in ("pd", "one"):
        seeds = [(asked.trace, asked.seed) for name, asked in fake.calls if name == target]
        assert len(seeds) == len(set(seeds))
    assert all(asked.seed > 1000 for _, asked in fake.calls)


def test_verdicts_break_even_and_knee(told: tuple[Fake, dict[str, object]]) -> None:
    _, result = told
    chat, rag = result["traces"]  # type: ignore[misc]
    by_figure = {one["figure"]: one["verdict"] for one in rag["compared"]}  # type: ignore[index]
    assert by_figure["itl_p99_ms"] == "better"
    assert by_figure["ttft_p50_ms"] == "worse"
    assert {one["figure"]: one["verdict"] for one in chat["compared"]}["itl_p50_ms"] == "within noise"  # type: ignore[index]
    assert result["break_even_prompt"] == 256
    assert result["knee_rps"] == {"pd": pytest.approx(12.5), "one": pytest.approx(12.5)}


def test_the_reports_hold_the_result(told: tuple[Fake, dict[str, object]]) -> None:
    _, result = told
    text = report.table(result)
    assert "from 256 tokens on" in text
    assert "P/D is better in" in text
    assert "1.5 GB/s" in text
    made = page.page(result, "a <title>")
    assert "<script>" not in made.replace('<script type="application/json" id="result">', "")
    assert "http" not in made.replace("http://www.w3.org", "")
    found: list[str] = []

    class Reader(HTMLParser):
        inside = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = tag == "script"

        def handle_data(self, data: str) -> None:
            if self.inside:
                found.append(data)

    Reader().feed(made)
    assert json.loads(found[0]) == json.loads(json.dumps(result))


def test_traces_fit_the_context() -> None:
    for context in (1024, 2048, 131072):
        for trace in traces.standard(context).values():
            assert 0 < trace.prompt + trace.output <= context
            assert 0 <= trace.shared < trace.prompt


@pytest.mark.parametrize("text", ["", "\n", '{"prompt": 1}\n', "[]\n", '{"prompt": "a"}\n{"text": "b"}\n', "{\n"])
def test_a_file_that_is_no_trace_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"t\.jsonl"):
        traces.own(path, 8)


def test_a_users_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b"}\n')
    assert traces.own(path, 8).what == "t.jsonl, 2 requests"
    with pytest.raises(UsageError):
        traces.own(tmp_path / "none", 8)


def test_requests_without_a_first_token_have_failed() -> None:
    run = load.read({"ttfts": [0.1, 0.0, 0.2], "itls": [[0.1], [], []], "output_lens": [2, 0, 1],
                     "errors": ["", "", "boom"], "duration": 1.0})  # fmt: skip
    assert (run.ttft, run.itl, run.output, run.failed) == ((0.1,), ((0.1,),), (2,), 2)


def test_nixl_figures_are_added_up_over_replicas() -> None:
    before = watch.nixl_sums('vllm:nixl_bytes_transferred_sum{a="1"} 5.0\nvllm:nixl_xfer_time_seconds_sum{a="1"} 1.0\n')
    after = watch.nixl_sums(
        'vllm:nixl_bytes_transferred_sum{a="1"} 1e9\nvllm:nixl_bytes_transferred_sum{a="2"} 1000000005\n'
        'vllm:nixl_xfer_time_seconds_sum{a="1"} 2.0\nvllm:nixl_num_failed_transfers_total{a="1"} 3\n'
    )
    found = watch.transfer_figures(before, after)
    assert found["kv_bytes"] == 2e9
    assert found["kv_gb_per_s"] == pytest.approx(2.0)
    assert found["kv_failed"] == 3
    assert watch.transfer_figures({}, {}) == {}
