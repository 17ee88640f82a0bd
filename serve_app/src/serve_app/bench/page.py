"""A bench's result as one HTML page that needs nothing else: plots are SVG in it. Pure."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from typing import Any

from serve_app.bench.report import table
from serve_app.bench.session import NAMES

WIDTH, HEIGHT, LEFT, TOP = 620, 220, 60, 16
COLOURS = {"pd": "#0b6e4f", "one": "#b3541e"}
LABELS = {"pd": "prefill/decode", "one": "one node"}
STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:980px;margin:2em auto;padding:0 1em;color:#222}
pre{background:#f6f6f3;padding:1em;overflow:auto}h2{margin-top:2em}text{font:12px system-ui,sans-serif;fill:#333}
@media(prefers-color-scheme:dark){body{background:#191a1c;color:#ddd}pre{background:#222}text{fill:#ccc}}"""


def page(result: dict[str, Any], title: str) -> str:
    """The whole page."""
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(_about(result))}</p>"]
    for trace in result["traces"]:
        parts += [
            f"<h2>{html.escape(trace['name'])}</h2>",
            f"<p>{html.escape(trace['what'])}. <b>{html.escape(trace['verdict'])}.</b></p>",
            ratios(trace["compared"]),
        ]
    if result.get("sweep"):
        points = result["sweep"]
        parts += ["<h2>Sweep to the knee</h2>"]
        for figure, label in (("goodput_share", "share of requests that kept the SLO"), ("ttft_p99_ms", "p99 first "
                              "token, ms"), ("itl_p99_ms", "p99 gap between tokens, ms")):  # fmt: skip
            series = {name: [(p["rate_rps"], p[name][figure]) for p in points] for name in LABELS}
            parts.append(lines(series, "requests/s", label))
    if result.get("lengths"):
        by_length: dict[str, list[tuple[float, float]]] = {name: [] for name in LABELS}
        for point in result["lengths"]:
            for one in point["compared"]:
                if one["figure"] == "itl_p99_ms":
                    for name in LABELS:
                        by_length[name].append((float(point["prompt"]), float(one[name])))
        parts += ["<h2>By prompt length</h2>", lines(by_length, "prompt tokens", "p99 gap between tokens, ms")]
    parts += ["<h2>Table</h2>", f"<pre>{html.escape(table(result))}</pre>"]
    raw = json.dumps(result, sort_keys=True).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style>{''.join(parts)}"
        f'<script type="application/json" id="result">{raw}</script></html>\n'
    )


def _about(result: dict[str, Any]) -> str:
    return " · ".join(f"{name}: {value}" for name, value in (result.get("about") or {}).items())


def ratios(compared: Sequence[dict[str, Any]]) -> str:
    """P/D over one node with intervals, on a logarithmic axis of ratios from 1/4 to 4."""
    row = 24
    height = row * len(compared) + 40
    left, right = 210, WIDTH - 20

    def x(ratio: float) -> float:
        return left + (right - left) * (math.log2(min(4.0, max(0.25, ratio))) + 2) / 4

    parts = [f'<svg role="img" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">']
    for mark in (0.25, 0.5, 1.0, 2.0, 4.0):
        dash = "" if mark == 1.0 else ' stroke-dasharray="2 4"'
        parts.append(f'<line x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="4" y2="{height - 30}" stroke="#999"{dash}/>'
                     f'<text x="{x(mark):.1f}" y="{height - 14}" text-anchor="middle">x{mark:g}</text>')  # fmt: skip
    for index, one in enumerate(compared):
        y = row * index + 18
        colour = {"better": COLOURS["pd"], "worse": "#a11", "within noise": "#888"}[one["verdict"]]
        parts.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{html.escape(NAMES[one["figure"]])}</text>'
            f'<line x1="{x(one["low"]):.1f}" x2="{x(one["high"]):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            f'stroke-width="3"/><circle cx="{x(one["ratio"]):.1f}" cy="{y}" r="5" fill="{colour}"/>'
        )
    parts.append(f'<text x="{left}" y="{height - 1}">P/D divided by one node, 95 % interval</text></svg>')
    return "".join(parts)


def lines(series: dict[str, list[tuple[float, float]]], x_label: str, y_label: str) -> str:
    """One plot with a line for each target."""
    points = [point for line in series.values() for point in line if point[1] == point[1]]
    if not points:
        return ""
    most_x = max(x for x, _ in points) or 1.0
    most_y = max(y for _, y in points) or 1.0

    def at(point: tuple[float, float]) -> str:
        x = LEFT + (WIDTH - LEFT - 20) * point[0] / most_x
        y = TOP + (HEIGHT - TOP - 40) * (1 - point[1] / most_y)
        return f"{x:.1f},{y:.1f}"

    base = HEIGHT - 40
    parts = [f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}">'
             f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - 20}" y2="{base}" stroke="#999"/>'
             f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{base}" stroke="#999"/>'
             f'<text x="{LEFT - 6}" y="{TOP + 4}" text-anchor="end">{most_y:.3g}</text>'
             f'<text x="{WIDTH - 20}" y="{base + 14}" text-anchor="end">{most_x:.3g} {html.escape(x_label)}</text>'
             f'<text x="{LEFT}" y="{TOP - 4}">{html.escape(y_label)}</text>']  # fmt: skip
    for index, (name, line) in enumerate(series.items()):
        kept = [point for point in line if point[1] == point[1]]
        parts.append(f'<polyline fill="none" stroke="{COLOURS[name]}" stroke-width="2" points="'
                     f'{" ".join(at(p) for p in kept)}"/>'
                     f'<text x="{LEFT + 150 * index}" y="{HEIGHT - 6}" style="fill:{COLOURS[name]}">'
                     f'{html.escape(LABELS[name])}</text>')  # fmt: skip
        parts += [f'<circle cx="{at(p).split(",")[0]}" cy="{at(p).split(",")[1]}" r="3" fill="{COLOURS[name]}"/>'
                  for p in kept]  # fmt: skip
    return "".join([*parts, "</svg>"])
