"""Dispatch: finds the verb, runs it, turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from slipway.cli.parser import Parser
from slipway.errors import MissingError, SlipwayError

DEFAULT_VERB = "build"
INTERRUPTED = 130


def verbs() -> list[str]:
    """Names of all verbs: the modules of slipway.cli that are one."""
    folder = Path(__file__).parent
    return sorted(
        path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "main", "common", "parser")
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code (docs/design.md, "The command line")."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    known = verbs()
    help_wanted = bool(given) and given[0] in ("-h", "--help", "help")
    verb = DEFAULT_VERB
    if given and not given[0].startswith("-"):
        if given[0] in known:
            verb = given.pop(0)
        elif not help_wanted:
            return _unknown_verb(given[0], known)
    if help_wanted:
        _print_help(known)
        return 0
    module = _load(verb)
    parser = Parser(
        prog=f"build.py {verb}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    parsed = argparse.Namespace(json="--json" in given)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        parsed = parser.parse_args(given)
        code = module.run(parsed)
        if sys.stdout is not None:  # None: whoever started us closed it
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted; finished layers and downloads are kept", file=sys.stderr)
        return INTERRUPTED
    except SlipwayError as error:
        _report(error, as_json=getattr(parsed, "json", False))
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`): not our error, and nothing more can be printed.
        _drop_output()
        return 0
    except OSError as error:
        refused = _refused(error)
        _report(refused, as_json=getattr(parsed, "json", False) and error.filename is not None)
        if error.filename is None:
            _drop_output()
        return refused.exit_code
    return int(code)


def _drop_output() -> None:
    """What is left in the buffer of standard output can't be written, and is not tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> SlipwayError:
    """A file that the system would not give or take, where nobody nearer knew what to say."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "slipway" in Path(frame.filename).parts]
    place = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    return MissingError(
        f"the system refused{place}: {error.strerror or error}",
        where=error.filename,
        remedy="look at the path, at who may write there, and at the room on its disk",
    )


def _load(verb: str) -> ModuleType:
    return importlib.import_module(f"slipway.cli.{verb}")


def _terminated(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _report(error: SlipwayError, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(error.as_json(), indent=2))
    print(f"error: {error}", file=sys.stderr)


def _unknown_verb(name: str, known: Sequence[str]) -> int:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    print(f"error: {name!r} is not a verb of build.py.{hint} Verbs: {', '.join(known)}", file=sys.stderr)
    return 2


def _print_help(known: Sequence[str]) -> None:
    print("usage: build.py [VERB] [OPTIONS]     (build.py VERB --help says more)\n")
    for verb in known:
        mark = " (default)" if verb == DEFAULT_VERB else ""
        print(f"  {verb:9} {_load(verb).HELP}{mark}")
    print(
        "\nexit codes: 0 done, 1 build failed, 2 wrong usage or pins, 3 something missing on this machine, 4 an"
        "\nartifact is not the pinned one, 5 push failed, 6 a gate said no, 130 interrupted"
    )
