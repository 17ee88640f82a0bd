"""Every `build.py …` that the pages name has a verb that is there and options that the verb takes."""

from __future__ import annotations

import importlib
import re

import pytest

from slipway.cli import common
from slipway.cli.main import verbs
from slipway.cli.parser import Parser

PAGES = [
    common.ROOT / "README.md",
    *sorted((common.ROOT / "docs").glob("*.md")),
    common.ROOT / "serve_app" / "README.md",
]
COMMAND = re.compile(r"(?:python3(?:\.11)? )?build\.py((?: +[^\s`|…\]]+)*)")
OPTION = re.compile(r"--[a-z][a-z-]*")

PROSE = ("with", "makes")
"""What follows the name where it is no command but the subject of a sentence."""

ACTIONS = {"store": ("list", "verify", "prune"), "cache": ("prune",)}

FOUND = sorted(
    {
        (page.name, " ".join(match[1].split()))
        for page in PAGES
        for line in page.read_text().splitlines()
        for match in COMMAND.finditer(line.partition("  #")[0])
        if (match[1].split() or [""])[0] not in PROSE
    }
)


def options(verb: str) -> set[str]:
    parser = Parser(prog=verb)
    importlib.import_module(f"slipway.cli.{verb}").add_arguments(parser)
    return {option for action in parser._actions for option in action.option_strings}


def test_there_are_many() -> None:
    assert len(FOUND) > 40


@pytest.mark.parametrize(("page", "words"), FOUND, ids=[f"{page}: {words}" for page, words in FOUND])
def test_it_is_one(page: str, words: str) -> None:
    own = words.partition(" -- ")[0]
    first = own.split()[0] if own else ""
    verb = first if re.fullmatch(r"[a-z]+", first) else "build"
    assert verb in verbs()
    assert not set(OPTION.findall(own)) - options(verb) - {"--help"}
    if verb in ACTIONS and "--help" not in own:
        assert own.split()[1] in ACTIONS[verb]
