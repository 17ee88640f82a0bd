from __future__ import annotations

import io
import threading

import pytest

from slipway.progress import LiveProgress, PlainProgress, Progress, open_progress, seconds_text, size_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(progress: Progress) -> None:
    with progress, progress.step("fetch", 100, "bytes") as step:
        with step.part("thing", 60) as part:
            part.advance(50)
            part.advance(10)
        progress.warn("[bold]careful[/bold]")
        step.advance(40)
        step.note("2 files, 100 B")


def test_lines_for_a_log() -> None:
    stream = io.StringIO()
    work(open_progress(stream=stream))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "warning: [bold]careful[/bold]"
    assert lines[1].startswith("fetch: 2 files, 100 B in ")
    assert "\x1b" not in stream.getvalue()


def test_a_line_now_and_then_in_a_long_step() -> None:
    stream = io.StringIO()
    work(PlainProgress(stream, every=0))
    assert "fetch: 50 B of 100 B, " in stream.getvalue()


def test_a_step_that_fails_says_how_far_it_came() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    with pytest.raises(KeyError), progress.step("build", 3) as step:
        step.advance()
        raise KeyError
    assert stream.getvalue().startswith("build: stopped at 1 of 3 after ")


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    progress = open_progress(stream=stream)
    assert isinstance(progress, LiveProgress)
    work(progress)
    assert "thing" in stream.getvalue() and "[bold]careful[/bold]" in stream.getvalue()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")  # the cursor is back


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    work(open_progress(stream=stream))
    assert "\x1b[3" not in stream.getvalue() and "\x1b[9" not in stream.getvalue()


def test_a_terminal_that_can_not_be_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(open_progress(stream=Terminal()), PlainProgress)


def test_several_threads() -> None:
    progress = PlainProgress(io.StringIO())
    with progress.step("fetch", 4000, "bytes") as step:

        def run() -> None:
            with step.part("x") as part:
                for _ in range(1000):
                    part.advance()

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert step.done == 4000


def test_words() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 191_794_682, 2.5e12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "191.8 MB",
        "2.5 TB",
    ]
    assert [seconds_text(s) for s in (0.04, 12, 185)] == ["0.0 s", "12 s", "3 min 05 s"]
