"""`serve_app demo-model OUT`."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "make the tiny demo model (random weights, tokenizer, chat template) in a folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """OUT."""
    parser.add_argument("out", metavar="OUT", type=Path, help="folder to write to, created when it is not there")


def run(args: argparse.Namespace) -> int:
    """Writes the model and prints the folder."""
    from serve_app.demo import model

    print(model.make(args.out))
    return 0
