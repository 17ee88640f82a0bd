"""Command lines: what argparse finds wrong is told as every other error is, with the nearest right option."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn

from slipway.errors import UsageError

UNKNOWN = "unrecognized arguments: "
"""How argparse's message begins."""


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of printing a page of usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            _unknown(self, message.removeprefix(UNKNOWN).split()) if message.startswith(UNKNOWN) else message,
            remedy=f"{self.prog} --help shows what it takes",
        )


def _unknown(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    options = [option for action in parser._actions for option in action.option_strings]
    said = []
    for word in [word for word in words if word.startswith("-")] or words:  # the others may be values of those
        name = word.partition("=")[0]
        near = difflib.get_close_matches(name, options, n=1)
        said.append(f"{word}, did you mean {near[0]}?" if near else word)
    return f"{parser.prog} doesn't know: {'; '.join(said)}"


def at_least(least: int) -> Callable[[str], int]:
    """A type for add_argument: whole numbers from `least` on."""

    def number(text: str) -> int:
        if not text.lstrip("+-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return number


def given(text: str) -> str:
    """A type for add_argument: text, and not what an unset variable of a script leaves. Where an option guards
    something, its empty value must not mean "don't"."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; an unset variable?")
    return text
