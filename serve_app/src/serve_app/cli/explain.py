"""`serve_app explain CONFIG.yaml`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from serve_app.config import document, explain, forms

HELP = "print the whole resolved configuration: for every value, whether it was given, derived or default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG and --json."""
    parser.add_argument("config", metavar="CONFIG.yaml", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Prints, imports no Ray."""
    plan = forms.plan(document.read(args.config))
    applications: list[dict[str, Any]] = []
    for application, rows in zip(plan.applications, explain.everything(plan), strict=True):
        applications.append({"name": application.get("name", "default"), "values": [row.as_json() for row in rows]})
        if not args.json:
            print(f"# application {application.get('name', 'default')} ({application['import_path']})")
            width = min(88, max((len(f"{row.path}: {row.shown}") for row in rows), default=0))
            for row in rows:
                print(f"{f'{row.path}: {row.shown}':<{width}}  # {row.origin}")
    if args.json:
        print(json.dumps({"source": plan.source, "applications": applications}, indent=2))
    return 0
