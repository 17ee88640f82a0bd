#!/usr/bin/env python3
"""What a million tokens cost, on one node and split: --one NODE=RATE --split NODE,NODE=RATE [--at PROMPT=ONE,SPLIT …]

RATE: output tokens per second that the benchmark measured (`serve_app bench`), at the latency that you promise.
--one: the model on one node. --split: prefill and decode, all their nodes. --at: the same two rates by prompt length,
to find the length from which the split is the cheaper one. Prices: prices.toml beside this file.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

PRICES = Path(__file__).with_name("prices.toml")


def dollars_per_million(dollars_per_hour: float, tokens_per_second: float) -> float:
    """Dollars for a million tokens."""
    return dollars_per_hour / (tokens_per_second * 3600) * 1e6


def break_even(points: Sequence[tuple[float, float, float]], one_hour: float, split_hour: float) -> float | None:
    """The prompt length from which the split costs less; None where that is at none of the lengths.

    points: (prompt tokens, rate on one node, rate split). Between two lengths the costs are taken to be straight lines.
    """
    gaps = [
        (length, dollars_per_million(split_hour, split) - dollars_per_million(one_hour, one))
        for length, one, split in sorted(points)
    ]
    for (before, higher), (after, lower) in zip(gaps, gaps[1:], strict=False):
        if higher > 0 >= lower:
            return before + (after - before) * higher / (higher - lower)
    return gaps[0][0] if gaps and gaps[0][1] <= 0 else None


def _rated(words: str) -> tuple[list[str], float]:
    nodes, _, rate = words.partition("=")
    return nodes.split(","), float(rate)


def _point(words: str) -> tuple[float, float, float]:
    length, _, rates = words.partition("=")
    one, split = rates.split(",")
    return float(length), float(one), float(split)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", type=_rated, required=True, metavar="NODE=RATE")
    parser.add_argument("--split", type=_rated, required=True, metavar="NODE,NODE=RATE")
    parser.add_argument("--at", type=_point, action="append", default=[], metavar="PROMPT=ONE,SPLIT")
    args = parser.parse_args(words)
    prices = tomllib.loads(PRICES.read_text(encoding="utf-8"))
    hours = {}
    for name, (nodes, rate) in (("one node", args.one), ("prefill/decode", args.split)):
        unknown = [node for node in nodes if node not in prices["nodes"]]
        if unknown:
            print(f"no price for {', '.join(unknown)}; add it to {PRICES.name}", file=sys.stderr)
            return 2
        hours[name] = sum(prices["nodes"][node] for node in nodes)
        cost = dollars_per_million(hours[name], rate)
        print(f"{name:15} ${hours[name]:.2f} an hour, {rate:g} tokens/s: ${cost:.2f} per million tokens")
    if args.at:
        found = break_even(args.at, hours["one node"], hours["prefill/decode"])
        said = f"from prompts of {found:.0f} tokens on" if found is not None else "at none of these lengths"
        print(f"prefill/decode is the cheaper one {said}")
    others = ", ".join(f"{name} ${dollars}" for name, dollars in prices["cluster"].items())
    print(f"prices as of {prices['read']}; besides the nodes: {others}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
