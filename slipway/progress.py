"""What a person sees while a command works: a live table on a terminal, plain lines in a log, always on stderr.

    with open_progress() as progress, progress.step("fetch", total=850_000_000, unit="bytes") as step:
        with step.part("torch", 190_000_000) as part:
            part.advance(1 << 20)

stdout is left to results (`--json`). rich draws the table where it is installed and stderr is a terminal that can be
redrawn; it obeys NO_COLOR (https://no-color.org). Steps and parts may be used from several threads.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Unit = Literal["bytes", "items"]
Style = Literal["auto", "live", "plain", "none"]

LINE_EVERY = 10.0
"""Seconds between two plain lines of one step."""


def size_text(count: float) -> str:
    """Bytes for people, in decimal units as disks and registries count them: `191.8 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def seconds_text(seconds: float) -> str:
    """`0.4 s`, `12 s` or `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


class Progress:
    """A reporter that shows nothing; the base of those that do."""

    def say(self, text: str) -> None:
        """One line that stays."""

    def warn(self, text: str) -> None:
        """One line that stays and should be noticed."""
        self.say(f"warning: {text}")

    def step(self, name: str, total: int | None = None, unit: Unit = "items") -> Step:
        """A piece of work with a beginning and an end; a context manager. `total` in `unit`, None if unknown."""
        return Step(self, name, total, unit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was found."""

    # What a step tells its reporter; called with the step's lock held.
    def began(self, step: Step) -> None: ...
    def moved(self, step: Step) -> None: ...
    def ended(self, step: Step, failed: bool) -> None: ...
    def part_began(self, part: Part) -> None: ...
    def part_moved(self, part: Part) -> None: ...
    def part_ended(self, part: Part) -> None: ...


class Step:
    """One piece of work. `advance` counts; `part` names what is being worked on right now."""

    def __init__(self, progress: Progress, name: str, total: int | None, unit: Unit) -> None:
        self.progress = progress
        self.name = name
        self.total = total
        self.unit = unit
        self.done = 0
        self.result = ""
        self.lock = threading.RLock()
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.started

    def amount(self) -> str:
        """`120.0 MB of 850.0 MB` or `3 of 9`."""
        show = size_text if self.unit == "bytes" else str
        return show(self.done) if self.total is None else f"{show(self.done)} of {show(self.total)}"

    def rate(self) -> str:
        """Bytes per second so far; empty where items are counted."""
        return f"{size_text(self.done / max(self.seconds, 1e-6))}/s" if self.unit == "bytes" else ""

    def advance(self, count: int = 1) -> None:
        """`count` more units are done; negative when work has to be done again."""
        with self.lock:
            self.done += count
            self.progress.moved(self)

    def part(self, label: str, total: int | None = None) -> Part:
        """A context manager around work on one thing; its `advance` also advances the step."""
        return Part(self, label, total)

    def note(self, result: str) -> None:
        """What the line at the end says instead of the amount."""
        self.result = result

    def __enter__(self) -> Self:
        self.started = time.monotonic()
        with self.lock:
            self.progress.began(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.lock:
            self.progress.ended(self, kind is not None)


class Part:
    """One thing being worked on within a step: a row of the table while it lasts."""

    def __init__(self, step: Step, label: str, total: int | None) -> None:
        self.step = step
        self.label = label
        self.total = total
        self.done = 0

    def advance(self, count: int = 1) -> None:
        """`count` more units are done, here and in the step."""
        with self.step.lock:
            self.done += count
            self.step.done += count
            self.step.progress.moved(self.step)
            self.step.progress.part_moved(self)

    def __enter__(self) -> Self:
        with self.step.lock:
            self.step.progress.part_began(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.step.lock:
            self.step.progress.part_ended(self)


class PlainProgress(Progress):
    """Lines for a log: one at the end of each step, and one every `every` seconds while it lasts."""

    def __init__(self, stream: TextIO, every: float = LINE_EVERY) -> None:
        self._stream = stream
        self._every = every
        self._last: dict[int, float] = {}

    def say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def began(self, step: Step) -> None:
        self._last[id(step)] = time.monotonic()

    def moved(self, step: Step) -> None:
        now = time.monotonic()
        if now - self._last.get(id(step), now) >= self._every:
            self._last[id(step)] = now
            self.say(f"{step.name}: {step.amount()}" + (f", {rate}" if (rate := step.rate()) else ""))

    def ended(self, step: Step, failed: bool) -> None:
        self._last.pop(id(step), None)
        self.say(closing_line(step, failed))


def closing_line(step: Step, failed: bool) -> str:
    """What stays of a step: `fetch: 391 files, 850.0 MB in 4.1 s`, or how far it came."""
    if failed:
        return f"{step.name}: stopped at {step.amount()} after {seconds_text(step.seconds)}"
    show = size_text(step.done) if step.unit == "bytes" else str(step.done)
    return f"{step.name}: {step.result or show} in {seconds_text(step.seconds)}"


class LiveProgress(Progress):
    """A table that is redrawn in place, one row per step and per part being worked on."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._console = Console(file=stream)
        self._table: RichProgress = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._rows: dict[int, TaskID] = {}
        self._shown = False

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        self._console.print(f"warning: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)

    def began(self, step: Step) -> None:
        if not self._shown:
            self._table.start()
            self._shown = True
        self._rows[id(step)] = self._table.add_task(step.name, total=step.total, amount=step.amount())

    def moved(self, step: Step) -> None:
        if (row := self._rows.get(id(step))) is not None:
            rate = step.rate()
            self._table.update(
                row, completed=step.done, total=step.total, amount=step.amount() + (f"  {rate}" if rate else "")
            )

    def ended(self, step: Step, failed: bool) -> None:
        if (row := self._rows.pop(id(step), None)) is not None:
            self._table.remove_task(row)
        self.say(closing_line(step, failed))

    def part_began(self, part: Part) -> None:
        self._rows[id(part)] = self._table.add_task(f"  {part.label}", total=part.total, amount="")

    def part_moved(self, part: Part) -> None:
        if (row := self._rows.get(id(part))) is not None:
            self._table.update(row, completed=part.done)

    def part_ended(self, part: Part) -> None:
        if (row := self._rows.pop(id(part), None)) is not None:
            self._table.remove_task(row)

    def close(self) -> None:
        if self._shown:
            self._table.stop()
            self._shown = False


def open_progress(style: Style = "auto", stream: TextIO | None = None) -> Progress:
    """The reporter that fits `stream` (stderr): live on a terminal that can be redrawn, else plain lines."""
    stream = stream or sys.stderr
    if style == "none":
        return Progress()
    capable = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if style == "live" or (style == "auto" and capable):
        try:
            return LiveProgress(stream)
        except ImportError:
            pass
    return PlainProgress(stream)
