"""The files of a wheel's dist-info that say what the wheel is: WHEEL and METADATA."""

from __future__ import annotations

import re
from email.message import Message
from email.parser import HeaderParser
from email.policy import compat32

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from slipway.wheel.name import WheelName
from slipway.wheel.refused import RefusedWheel

_EMPTY_LINE = re.compile(r"\r?\n\r?\n")

SUPPORTED = 1
"""Major version of the wheel format."""


def check_wheel_file(content: bytes, wheel: str, member: str) -> None:
    """Raises RefusedWheel when WHEEL states another format version.

    Its tags are not held against the file name: ray and vllm publish wheels whose two lists differ (linux_x86_64, even
    cp312 for abi3), and installers go by the file name.
    """
    version = str(_parse(content, wheel, member).get("Wheel-Version", "")).strip()
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) != SUPPORTED:
        raise RefusedWheel(wheel, f"wheel format {version or '(none named)'}, not {SUPPORTED}.x", member=member)


def check_metadata(content: bytes, name: WheelName, wheel: str, member: str) -> None:
    """Hold METADATA's Name and Version against the file name. Raises RefusedWheel."""
    message = _parse(content, wheel, member)
    own, version = str(message.get("Name", "")), str(message.get("Version", ""))
    try:
        agrees = canonicalize_name(own) == name.distribution and Version(version) == name.version
    except InvalidVersion:
        agrees = False
    if not agrees:
        raise RefusedWheel(
            wheel,
            f"it says {own!a} {version!a}, the file name says {name.distribution} {name.version}",
            member=member,
            why="another package than the pinned one would enter the image",
        )


def _parse(content: bytes, wheel: str, member: str) -> Message:
    """The fields before the first empty line; what follows is the project's description, often long."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedWheel(wheel, "it is not UTF-8", member=member) from error
    return HeaderParser(policy=compat32).parsestr(_EMPTY_LINE.split(text, 1)[0])
