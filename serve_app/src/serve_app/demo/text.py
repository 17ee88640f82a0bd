"""What the demo tokenizer is trained on: text that is in every image, in a fixed order.

Debian keeps /usr/share/common-licenses; Python brings its standard library's sources. Between two Debian or Python
releases the text differs and so does the tokenizer; within one image it is the same each time.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

LICENCES = Path("/usr/share/common-licenses")
MODULES = ("argparse", "ast", "datetime", "decimal", "difflib", "inspect", "mailbox", "optparse", "pydoc", "tarfile",
           "textwrap", "threading", "turtle", "typing", "unittest/mock", "zipfile")  # fmt: skip
LIMIT = 2_000_000
"""Characters at most: more text would cost seconds and change nothing a test can see."""


def training_text(licences: Path = LICENCES, library: Path | None = None) -> Iterator[str]:
    """Yields pieces of text, LIMIT characters in all."""
    left = LIMIT
    for path in _files(licences, library or Path(sysconfig.get_path("stdlib"))):
        try:
            piece = path.read_text(encoding="utf-8", errors="replace")[:left]
        except OSError:
            continue  # a file that is not there: the order of the others stays
        left -= len(piece)
        yield piece
        if left <= 0:
            return


def _files(licences: Path, library: Path) -> Iterator[Path]:
    if licences.is_dir():
        # Links (GPL -> GPL-3) are the same text again.
        yield from sorted(path for path in licences.iterdir() if path.is_file() and not path.is_symlink())
    for module in MODULES:
        single = library / f"{module}.py"
        yield single if single.exists() else library / module / "__init__.py"
