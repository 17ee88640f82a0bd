#!/usr/bin/env python3
"""Slipway's command line: `python3 build.py --help`.

Only what the oldest Pythons can read stands in this file, so that they can say what they lack. All else happens in
slipway.host.venv, which makes the driver's environment on first use and runs slipway.cli.main in it.
"""
# ruff: noqa: UP031, UP032, PTH118, PTH120, ANN201

import os
import sys

ROOT = os.path.dirname(os.path.realpath(__file__))
OLDEST = (3, 11)
NEWER = tuple("python3.%d" % minor for minor in range(OLDEST[1], 20))


def too_old():  # type: () -> int
    """Say that this Python is too old, and which command would do. Exit code 3: something missing on this machine."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [name for name in NEWER for folder in folders if os.access(os.path.join(folder, name), os.X_OK)]
    if found:
        remedy = "run: %s %s" % (found[-1], " ".join(sys.argv))
    else:
        remedy = "run: apt-get install python3.11 python3.11-venv    then: python3.11 %s" % " ".join(sys.argv)
    sys.stderr.write(
        "error: Python older than %d.%d: this is %d.%d (%s)\n" % (OLDEST + sys.version_info[:2] + (sys.executable,))
        + "  what to do: %s\n" % remedy
    )
    return 3


def main():  # type: () -> int
    """Check the Python, then hand over."""
    if sys.version_info < OLDEST:
        return too_old()
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    from pathlib import Path

    from slipway.host import venv

    return venv.hand_over(Path(ROOT), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
