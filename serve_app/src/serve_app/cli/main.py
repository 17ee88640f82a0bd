"""`serve_app VERB …`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from serve_app import __version__
from serve_app.cli import bench, demo_model, doctor, drain, explain, kvbench, serve
from serve_app.errors import EXIT_INTERRUPTED, ServeAppError

VERBS = {
    "bench": bench,
    "serve": serve,
    "drain": drain,
    "explain": explain,
    "demo-model": demo_model,
    "kvbench": kvbench,
    "doctor": doctor,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="serve_app",
        description="Ray Serve LLM from one YAML, with an OpenAI endpoint.",
        epilog="Exit codes: 0 done or SIGTERM, 1 the service failed, 2 wrong usage or configuration, 3 something is "
        "missing on this machine, 130 SIGINT.",
    )
    top.add_argument("--version", action="version", version=f"serve_app {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in VERBS.items():
        module.add_arguments(verbs.add_parser(name, help=module.HELP, description=module.HELP))
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; the exit code."""
    args = parser().parse_args(argv)
    try:
        code: int = VERBS[args.verb].run(args)
        return code
    except ServeAppError as error:
        print(f"serve_app: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
