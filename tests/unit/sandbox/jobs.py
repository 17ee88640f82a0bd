"""Functions that tests run as jobs."""

import json
import os
import sys
import time
from pathlib import Path


def echo(strong: bool, text: str) -> int:
    print("a word for the log", file=sys.stderr, flush=True)
    sys.stdout.write(f"{strong} {text}")
    return 0


def environment(strong: bool) -> int:
    print(json.dumps({"env": dict(os.environ), "umask": os.umask(0), "cwd": str(Path.cwd())}))
    return 0


def fail(strong: bool, code: int) -> int:
    print("this is why", file=sys.stderr)
    return code


def sleep(strong: bool, mark: str) -> int:
    Path(mark).write_text(str(os.getpid()))
    time.sleep(60)
    return 0
