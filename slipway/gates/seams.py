"""serve_app fits the Ray and vLLM of its image: what it overrides of their insides still looks as it did.

The list comes from the image itself (slipway.inspect.seams), so that an image of any release is judged by its own
serve_app. Subject of a finding: `file:name` below site-packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect import seams
from slipway.inspect.image import Image

NAME = "seams"
PROVES = "every private method that serve_app overrides has the signature it was written for"

_LIST = re.compile(r"(.*/site-packages/)" + re.escape(seams.LIST))


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    for path, content in image.texts().items():
        match = _LIST.fullmatch(path)
        if match is None:
            continue
        try:
            listed = seams.read(content.decode())
        except ValueError as error:
            yield Finding(path, f"it is {error}", "what serve_app needs can't be checked", "mend the file")
            continue
        sources = {
            seam.file: text.decode("utf-8", "replace")
            for seam in listed
            if (text := image.text(match[1] + seam.file)) is not None
        }
        for seam, fault in seams.faults(listed, sources):
            yield Finding(
                f"{seam.file}:{seam.name}",
                f"{seam.file}: {fault}",
                f"serve_app overrides or reads {seam.name}; with another shape it fails at a request, not at the start",
                "adapt serve_app to this release and its seams.json, or keep the older ray and vllm",
            )
