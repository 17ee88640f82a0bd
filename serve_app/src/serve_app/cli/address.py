"""A Ray cluster's address, asked before Ray is: Ray itself tries for minutes, and says why in its own words."""

from __future__ import annotations

import argparse
import math
import socket

from serve_app.errors import MissingError, UsageError

SECONDS = 5.0


def check(address: str) -> None:
    """Raises UsageError for what is no `host:port`, MissingError where nobody listens. `auto` and `ray://…` are Ray's
    own business."""
    if address == "auto" or "://" in address:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--address {address!r} is neither HOST:PORT nor auto; Ray's port is 6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except OSError as error:
        raise MissingError(
            f"no Ray cluster answers at {address}: {error}; is the head up, and is this its GCS port (6379)?"
        ) from error


def seconds(text: str) -> float:
    """A type for add_argument: a time that is more than nothing."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value
