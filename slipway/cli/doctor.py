"""Examine this machine: can it build, load and test images, and what to do where it can't. Changes nothing.

Exit code 0 when images can be built here, 3 when something has to be put right first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from slipway.cli import common
from slipway.doctor.checks import examine
from slipway.doctor.model import Finding, Machine

HELP = "examine this machine and say what to put right"
MISSING = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_folders(parser)
    parser.add_argument("--output", type=Path, metavar="DIR", default=common.ROOT / "out", help="where images go")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    findings = list(examine(Machine(args.store, args.cache, args.output)))
    if args.json:
        print(json.dumps({"findings": [finding.as_json() for finding in findings]}, indent=2))
    else:
        print(table(findings))
    return MISSING if any(finding.severity == "error" for finding in findings) else 0


def table(findings: Sequence[Finding]) -> str:
    """One line per finding, its remedy below it."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.severity:8} {finding.check:8} {finding.what}")
        if finding.remedy:
            lines.append(f"{'':17} → {finding.remedy}")
    return "\n".join(lines)
