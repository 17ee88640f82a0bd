"""The image is no bigger than its pins allow, as a whole, by layer, and in the number of layers.

Subject of a finding: `image`, `layers`, or `layer NAME`. Sizes are compressed, in units of 10^6 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "budget"
PROVES = "the compressed image and each layer are within their budgets"

MB = 1_000_000


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    layout = image.layout
    if settings.compressed_mb and layout.size > settings.compressed_mb * MB:
        biggest = sorted(layout.layers, key=lambda ref: -ref.size)[:5]
        sizes = ", ".join(f"{ref.name} {ref.size / MB:.1f}" for ref in biggest)
        yield Finding(
            "image",
            f"it has {layout.size / MB:.1f} MB compressed, {settings.compressed_mb} are allowed; the biggest: {sizes}",
            "every node pulls all of it before it can serve",
            "`build.py diff OLD NEW` says what grew: leave it out, or raise budget.compressed_mb in versions.toml",
        )
    for ref in layout.layers:
        if settings.layer_mb and ref.size > settings.layer_mb * MB:
            yield Finding(
                f"layer {ref.name}",
                f"it has {ref.size / MB:.1f} MB compressed, {settings.layer_mb} are allowed",
                "one connection pulls a layer, and a broken upload starts again from its first byte",
                "split its package over two layers",
            )
    if settings.layers and len(layout.layers) > settings.layers:
        yield Finding(
            "layers",
            f"there are {len(layout.layers)}, {settings.layers} are allowed",
            "engines stop at 127, older containerd at about 56, and images FROM this one need some themselves",
            "group small packages into fewer layers",
        )
