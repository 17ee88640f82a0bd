"""Why one address did not give an artifact. Caught inside fetch and registry, turned there into what a user reads."""

from __future__ import annotations


class NotHad(Exception):
    """Base: `address` without credentials, `reason` in a few words."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class Absent(NotHad):
    """The server answered and does not have it (404, 410, not on the index page)."""


class Refused(NotHad):
    """The server answered and does not hand it out (401, 403, 407, 451): it may well have it."""


class Unreachable(NotHad):
    """No usable answer after all tries: no route, no name, broken connections, 5xx."""


class WrongBytes(NotHad):
    """Something else is published under the name. `sha256` is empty where it was not read to the end."""

    def __init__(self, address: str, reason: str, sha256: str = "") -> None:
        super().__init__(address, reason)
        self.sha256 = sha256


class Cancelled(Exception):
    """The command is being stopped; nothing is wrong with the address."""
