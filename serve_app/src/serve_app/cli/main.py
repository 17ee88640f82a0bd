"""`serve_app VERB …`."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from serve_app import __version__
from serve_app.cli import bench, demo_model, doctor, drain, explain, kvbench, serve
from serve_app.errors import EXIT_INTERRUPTED, EXIT_USAGE, ServeAppError

VERBS = {
    "bench": bench,
    "serve": serve,
    "drain": drain,
    "explain": explain,
    "demo-model": demo_model,
    "kvbench": kvbench,
    "doctor": doctor,
}


class Parser(argparse.ArgumentParser):
    """Tells what is wrong as every other error is told, with the nearest right word."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'", message)
        actions = [action for sub in self._all() for action in sub._actions]
        known = [*VERBS, *(option for action in actions for option in action.option_strings)]
        wrong = (found[1] or found[2]).partition("=")[0] if found else ""
        near = difflib.get_close_matches(wrong, known, n=1) if found and wrong not in known else []
        hint = f" (did you mean {near[0]}?)" if near else ""
        self.exit(EXIT_USAGE, f"serve_app: {message}{hint}; {self.prog} --help shows what it takes\n")

    def _all(self) -> list[argparse.ArgumentParser]:
        below = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return [self, *(parser for action in below for parser in action.choices.values())]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = Parser(
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
