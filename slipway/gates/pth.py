"""Code that Python runs at every start is known: .pth files, sitecustomize, usercustomize.

A .pth file's lines that begin with `import` are executed by site.py (https://docs.python.org/3/library/site.html).
Subject of a finding: the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "pth"
PROVES = "no .pth file, sitecustomize or usercustomize outside the list"

_PTH = re.compile(r"(?:.*/)?(?:site|dist)-packages/([^/]+\.pth|(?:site|user)customize(?:\.py|\.pyc|/__init__\.py))")


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    for node in image.tree.files():
        if not _PTH.fullmatch(node.path):
            continue
        text = image.text(node.path) or b""
        runs = [
            line for line in text.decode("utf-8", "replace").splitlines() if line.startswith(("import ", "import\t"))
        ]
        what = f"and runs {runs[0][:120]!r}" if runs else "and adds folders to sys.path"
        if not node.path.endswith(".pth"):
            what = "and runs all of it"
        yield Finding(
            node.path,
            f"Python reads it at every start {what}; it comes from {image.owner(node)}",
            "it runs in each of the image's processes, before any of their own code; supply-chain attacks have used it",
            "leave its package out, or list the path with a reason in versions.toml",
        )
