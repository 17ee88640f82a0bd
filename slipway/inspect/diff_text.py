"""An ImageDiff for people: plain text for a terminal, Markdown for a pull request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from slipway.inspect.diff import FileChange, ImageDiff, Pair
from slipway.progress import size_text

SHOWN = 15
"""Rows per table where not all are asked for."""


def text(diff: ImageDiff, *, all_files: bool = False) -> str:
    """Plain lines. all_files: every path, not only the sums by package."""
    if diff.same:
        return f"one image: {diff.after}"
    lines = [f"before {diff.before}", f"after  {diff.after}", sizes(diff)]
    for title, pairs in (("labels and start", diff.settings), ("packages", diff.packages)):
        lines += ["", f"{title}: {_counts(pairs.values())}"]
        lines += [f"  {name}: {_arrow(pair)}" for name, pair in pairs.items()]
    lines += ["", "layers:"]
    for layer in diff.layers:
        before = f"{size_text(layer.before)} → " if layer.state == "changed" else ""
        size = size_text(layer.after or layer.before)
        lines.append(f"  {layer.state:8} {layer.name:28} {before}{size}")
    lines += ["", f"files: {file_counts(diff)}"]
    if all_files:
        lines += [f"  {_sign(c)} {c.path}" + (f"  ({c.what})" if c.what else "") for c in diff.files]
    else:
        rows = by_owner(diff)
        lines += [f"  {owner}: {count} files, {_growth(growth)}" for owner, count, growth in rows[:SHOWN]]
        lines += [f"  and {len(rows) - SHOWN} more packages or layers"] if len(rows) > SHOWN else []
    return _printable("\n".join(lines))


def markdown(diff: ImageDiff, *, all_files: bool = False) -> str:
    """Tables for a comment on a pull request."""
    if diff.same:
        return f"Both are one image, `{diff.after}`."
    lines = [f"**{sizes(diff)}**", "", f"`{diff.before}` → `{diff.after}`"]
    for title, pairs in (("Packages", diff.packages), ("Labels and start", diff.settings)):
        if pairs:
            lines += ["", f"### {title}", "", "| what | before | after |", "|---|---|---|"]
            lines += [f"| {_cell(name)} | {_cell(a or '')} | {_cell(b or '')} |" for name, (a, b) in pairs.items()]
    lines += ["", "### Layers", "", "| layer | | before | after |", "|---|---|---:|---:|"]
    lines += [
        f"| {_cell(layer.name)} | {layer.state} | {size_text(layer.before)} | {size_text(layer.after)} |"
        for layer in diff.layers
        if layer.state != "shared"
    ]
    lines += ["", f"### Files: {file_counts(diff)}", ""]
    if all_files:
        lines += [f"- `{_sign(change)} {change.path}` {change.what}".rstrip() for change in diff.files]
    else:
        lines += ["| from | files | unpacked bytes |", "|---|---:|---:|"]
        lines += [f"| {_cell(who)} | {count} | {_growth(growth)} |" for who, count, growth in by_owner(diff)[:SHOWN]]
    return _printable("\n".join(lines))


def sizes(diff: ImageDiff) -> str:
    """One line: how big, how much to pull."""
    growth = _growth(diff.size_after - diff.size_before)
    return (
        f"{size_text(diff.size_before)} → {size_text(diff.size_after)} ({growth}), "
        f"{size_text(diff.to_pull)} to pull for who has the first"
    )


def file_counts(diff: ImageDiff) -> str:
    """`3 added, 1 removed, 2 with other content, 0 with another mode`."""
    words = {"added": "added", "removed": "removed", "content": "with other content", "mode": "with another mode"}
    return ", ".join(f"{sum(c.kind == kind for c in diff.files)} {word}" for kind, word in words.items())


def by_owner(diff: ImageDiff) -> list[tuple[str, int, int]]:
    """(package or layer, files changed, growth in bytes), the biggest growth first. Versions are left out."""
    count: dict[str, int] = defaultdict(int)
    growth: dict[str, int] = defaultdict(int)
    for change in diff.files:
        name = " ".join(change.owner.split(" ")[:2])
        count[name] += 1
        growth[name] += change.growth
    return sorted(((name, count[name], growth[name]) for name in count), key=lambda row: (-abs(row[2]), row[0]))


def _counts(pairs: Iterable[Pair]) -> str:
    values = list(pairs)
    added, removed = sum(a is None for a, _ in values), sum(b is None for _, b in values)
    return f"{added} added, {removed} removed, {len(values) - added - removed} changed"


def _arrow(pair: Pair) -> str:
    before, after = pair
    if before is None:
        return f"new, {after}"
    return f"gone, was {before}" if after is None else f"{before} → {after}"


def _growth(count: int) -> str:
    return f"{'-' if count < 0 else '+'}{size_text(abs(count))}"


def _sign(change: FileChange) -> str:
    return {"added": "+", "removed": "-", "content": "~", "mode": "m"}[change.kind]


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def _printable(lines: str) -> str:
    """Paths that are no UTF-8 must not stop the output."""
    return lines.encode("utf-8", "backslashreplace").decode()
