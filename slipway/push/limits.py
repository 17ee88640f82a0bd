"""What a registry takes at most, checked before the first byte is sent.

Sources: https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html and
https://docs.aws.amazon.com/AmazonECR/latest/public/public-service-quotas.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from slipway.errors import PushFailed
from slipway.progress import size_text
from slipway.push.content import Content
from slipway.registry.client import MANIFEST_LIMIT
from slipway.registry.reference import Reference

Kind = Literal["ecr", "ecr-public", "other"]
ECR = re.compile(r"(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)")
ECR_PUBLIC = ("public.ecr.aws", "ecr-public.aws.com")


@dataclass(frozen=True)
class Limits:
    """layer: bytes of one layer; layers: how many of them; manifest: bytes; tags: of one image."""

    layer: int | None
    layers: int
    manifest: int
    tags: int | None


ENGINE_LAYERS = 127
"""What engines mount at most; moby/buildkit#3067."""

LIMITS: dict[Kind, Limits] = {
    "ecr": Limits(52_000 << 20, ENGINE_LAYERS, 4 << 20, 1000),
    "ecr-public": Limits(10_000 << 20, ENGINE_LAYERS, 4 << 20, 1000),
    "other": Limits(None, ENGINE_LAYERS, MANIFEST_LIMIT, None),
}


def kind_of(host: str) -> Kind:
    """Which registry a host is, by its name."""
    name = host.partition(":")[0]
    return "ecr-public" if name in ECR_PUBLIC else "ecr" if ECR.fullmatch(name) else "other"


def check(content: Content, tags: int, where: Reference) -> None:
    """Raises PushFailed naming everything that is too much for the registry."""
    limits = LIMITS[kind_of(where.host)]
    layers = content.layout.layers
    wrong = [
        f"layer {ref.name!r} has {size_text(ref.size)}, at most {size_text(limits.layer)} are taken"
        for ref in layers
        if limits.layer is not None and ref.size > limits.layer
    ]
    if len(layers) > limits.layers:
        wrong.append(f"it has {len(layers)} layers, at most {limits.layers} can be run")
    if len(content.manifest) > limits.manifest:
        wrong.append(f"its manifest has {size_text(len(content.manifest))}, at most {size_text(limits.manifest)}")
    if limits.tags is not None and tags > limits.tags:
        wrong.append(f"it would have {tags} tags, at most {limits.tags}")
    if wrong:
        raise PushFailed(
            f"{where.host} does not take {content.name}: " + "; ".join(wrong),
            where=where,
            why="nothing was sent",
            remedy="split what is too large: wheels above the limit can't be shipped to this registry",
        )
