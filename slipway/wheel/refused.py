"""The error for a wheel that may not enter an image."""

from __future__ import annotations

from slipway.errors import BuildFailed


class RefusedWheel(BuildFailed):
    """A wheel, or one member of it, breaks a rule (exit 1)."""

    def __init__(
        self, wheel: str, what: str, *, member: str | None = None, why: str | None = None, remedy: str | None = None
    ) -> None:
        named = f"{wheel}: {member!a}: {what}" if member is not None else f"{wheel}: {what}"
        super().__init__(named, where=wheel, why=why, remedy=remedy)
        self.wheel = wheel
        self.member = member
