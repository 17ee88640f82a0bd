"""The report as a PNG: GB/s over size, one line a backend, operation and number of descriptors, the raw link's beside.

Drawn with Pillow, which vLLM brings into the image; matplotlib would be 60 MB more for one picture.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from serve_app.errors import MissingError
from serve_app.kvbench.plan import size_text
from serve_app.kvbench.report import Report

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 1200, 720, 90, 60, 400, 70
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e44ad", "#e08e0b", "#16a3a3", "#7f5539", "#5c677d")
GREY, INK = "#d9d9d9", "#222222"


def lines(report: Report) -> dict[str, list[tuple[int, float]]]:
    """Name → (size in bytes, GB/s), ascending."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in report.rows:
        pieces = "1 piece" if row.descriptors == 1 else f"{row.descriptors} pieces"
        name = f"{row.backend} {row.op} {row.memory}, {pieces}, {row.transport}"
        found.setdefault(name, []).append((row.size, row.rate / 1e9))
    return {name: sorted(points) for name, points in found.items()}


def scale(report: Report) -> tuple[list[int], float, float]:
    """Sizes on the x axis; the decades of GB/s that hold every point of the y axis."""
    sizes = sorted({row.size for row in report.rows})
    rates = [row.rate / 1e9 for row in report.rows] + [link.rate / 1e9 for link in report.links]
    low = 10.0 ** math.floor(math.log10(min(rates)))
    high = 10.0 ** math.ceil(math.log10(max(rates)) + 1e-9)
    return sizes, low, max(high, low * 10)


def write(report: Report, path: Path) -> None:
    """Raises MissingError without Pillow, or when there is nothing to draw."""
    if not report.rows:
        raise MissingError("there is nothing to draw: no case was measured")
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise MissingError("a picture needs Pillow") from error
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    _draw(report, ImageDraw.Draw(image), ImageFont.load_default(15))
    image.save(path, "PNG")


def _draw(report: Report, draw: Any, font: Any) -> None:
    sizes, low, high = scale(report)
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(size: int) -> float:
        span = math.log(sizes[-1] / sizes[0]) or 1.0
        return LEFT + plot_width * (math.log(size / sizes[0]) / span if len(sizes) > 1 else 0.5)

    def y(rate: float) -> float:
        return TOP + plot_height * (1 - math.log(rate / low) / math.log(high / low))

    draw.text((LEFT, 20), "NIXL between two processes: GB/s by size of the transfer", fill=INK, font=font)
    for size in sizes:
        draw.line([(x(size), TOP), (x(size), HEIGHT - BOTTOM)], fill=GREY)
        draw.text((x(size) - 14, HEIGHT - BOTTOM + 10), size_text(size), fill=INK, font=font)
    for decade in range(round(math.log10(low)), round(math.log10(high)) + 1):
        for step in range(1, 10):
            rate = step * 10.0**decade
            if rate <= high * 1.0001:
                draw.line([(LEFT, y(rate)), (WIDTH - RIGHT, y(rate))], fill=INK if step == 1 else GREY)
        draw.text((14, y(10.0**decade) - 9), f"{10.0**decade:g} GB/s", fill=INK, font=font)
    legend = TOP
    for number, (name, points) in enumerate(lines(report).items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(x(size), y(rate)) for size, rate in points]
        draw.line(places, fill=colour, width=3)
        for px, py in places:
            draw.ellipse([px - 4, py - 4, px + 4, py + 4], fill=colour)
        legend = _legend(draw, font, name, colour, legend)
    for link in report.links:
        if link.rate > 0:
            draw.line([(LEFT, y(link.rate / 1e9)), (WIDTH - RIGHT, y(link.rate / 1e9))], fill="black", width=2)
            legend = _legend(draw, font, f"raw link: {link.tool} {link.op} {link.rate / 1e9:.2f} GB/s", "black", legend)


def _legend(draw: Any, font: Any, name: str, colour: str, top: int) -> int:
    """One entry, in lines of at most 44 characters; where the next one begins."""
    draw.line([(WIDTH - RIGHT + 20, top + 9), (WIDTH - RIGHT + 45, top + 9)], fill=colour, width=4)
    words, text = name.split(), [""]
    for word in words:
        if len(text[-1]) + len(word) > 44:
            text.append("")
        text[-1] = f"{text[-1]} {word}".strip()
    for part in text:
        draw.text((WIDTH - RIGHT + 52, top), part, fill=INK, font=font)
        top += 18
    return top + 6
