"""Lets the tests import the builder of small ELF files, which lies with slipway.inspect's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))
