"""Models can be downloaded, or need not be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
LEAST = 2 << 30


def check(node: Node) -> Iterator[Finding]:
    """The folder that Hugging Face's hub takes: HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface."""
    environ = node.environ
    base = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '/nowhere')}/.cache"
    folder = Path(environ.get("HF_HUB_CACHE") or environ.get("HF_HOME") or f"{base}/huggingface")
    offline = environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
    if not node.writable(folder):
        if offline:
            yield Finding("hf_cache", "ok", f"{folder} can't be written, and HF_HUB_OFFLINE is set")
        else:
            yield Finding(
                "hf_cache",
                "error",
                f"{folder} can't be written: no model can be downloaded",
                "point HF_HOME at a writable volume, or set HF_HUB_OFFLINE=1 and give a folder as source",
                WHY,
            )
        return
    _, free = node.space(folder)
    if free < LEAST:
        yield Finding(
            "hf_cache",
            "warning",
            f"{folder} has {free / 1e9:.1f} GB free: few models fit",
            "a volume of the model's size and half as much again",
            WHY,
        )
    else:
        yield Finding("hf_cache", "ok", f"{folder} can be written, {free / 1e9:.0f} GB free")
