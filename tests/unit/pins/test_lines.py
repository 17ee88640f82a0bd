"""The line locator against documents whose lines are known, since they are written here key by key."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.pins.lines import KeyPath, key_lines

ROOT = Path(__file__).resolve().parents[3]

keys = st.one_of(
    st.sampled_from(["a", "b", "name", "2", "x-y"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=6),
)
texts = st.one_of(
    st.sampled_from(['#"=[', "]]", "a\nb", "'''", '"""', "\\", "", "}\n[x]\n", '""']),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8),
)
scalars = st.one_of(texts, st.integers(-99, 99), st.booleans())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)


def basic(value: str) -> str:
    """A basic string: JSON's, but that TOML has no surrogate pairs."""
    return json.dumps(value, ensure_ascii=False)


class Writer:
    """Writes TOML in styles drawn at random, and notes on which line each key came to stand."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def note(self, path: KeyPath) -> None:
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], self.text.count("\n") + 1)

    def flip(self) -> bool:
        return bool(self.draw(st.booleans()))

    def blank(self) -> None:
        self.text += self.draw(st.sampled_from(["", "", "\n", "# [no] = 'key'\n", "  \t\n", "\r\n"]))

    def key(self, key: str) -> str:
        bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
        if bare and self.flip():
            return key
        if "'" not in key and self.flip():
            return f"'{key}'"
        return basic(key)

    def string(self, value: str) -> str:
        style = self.draw(st.sampled_from(["basic", "literal", "multi", "multi-literal"]))
        if style == "literal" and "'" not in value and "\n" not in value:
            return f"'{value}'"
        if style == "multi":
            return '"""\n' + value.replace("\\", "\\\\").replace('"', '\\"') + '"""'
        if style == "multi-literal" and "'" not in value:
            return f"'''\n{value}'''"
        return basic(value)

    def value(self, value: Any, path: KeyPath, inline: bool) -> None:
        if isinstance(value, str):
            self.text += basic(value) if inline else self.string(value)
        elif isinstance(value, list):
            self.array(value, path, inline)
        elif isinstance(value, dict):
            self.text += "{ "
            for index, (key, item) in enumerate(value.items()):
                self.text += ", " if index else ""
                self.note((*path, key))
                self.text += f"{self.key(key)} = "
                self.value(item, (*path, key), inline=True)
            self.text += " }"
        else:
            self.text += json.dumps(value)

    def array(self, value: list[Any], path: KeyPath, inline: bool) -> None:
        self.text += "["
        for index, item in enumerate(value):
            if not inline and self.flip():
                self.text += ' # a comment, with ] and "\n'
            self.note((*path, index))
            self.value(item, (*path, index), inline)
            self.text += ","
        self.text += "]"

    def table(self, content: dict[str, Any], path: KeyPath, names: tuple[str, ...]) -> None:
        """Pairs first, then sub-tables under headers, as TOML wants it."""
        later = {}
        for key, value in content.items():
            tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            if (isinstance(value, dict) or tables) and self.flip():
                later[key] = value
                continue
            self.blank()
            if isinstance(value, dict) and len(value) == 1 and self.flip():
                (inner, item), *_ = value.items()
                self.note((*path, key, inner))
                self.text += f"{self.key(key)} . {self.key(inner)} = "
                self.value(item, (*path, key, inner), inline=False)
            else:
                self.note((*path, key))
                self.text += f"{self.key(key)}= "
                self.value(value, (*path, key), inline=False)
            self.text += self.draw(st.sampled_from(["\n", " # comment\n", "\r\n"]))
        for key, value in later.items():
            header = ".".join(self.key(name) for name in (*names, key))
            for index, item in enumerate(value if isinstance(value, list) else [value]):
                self.blank()
                inner = (*path, key, index) if isinstance(value, list) else (*path, key)
                self.note(inner)
                self.text += f"[[ {header}]]\n" if isinstance(value, list) else f"[ {header} ]\n"
                self.table(item, inner, (*names, key))


def paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    found = {path} if path else set()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found |= paths(item, (*path, key))
    return found


@settings(deadline=None)  # other work on the machine is no failure
@given(st.data(), st.dictionaries(keys, values, max_size=4))
def test_every_key_is_found_on_its_line(data: st.DataObject, content: dict[str, Any]) -> None:
    writer = Writer(data.draw)
    writer.table(content, (), ())
    read = tomllib.loads(writer.text)
    assert paths(read) == paths(content)
    assert key_lines(writer.text) == writer.lines


def test_all_keys_of_the_projects_own_files_are_found() -> None:
    for path in (ROOT / "versions.toml", ROOT / "pyproject.toml"):
        text = path.read_text()
        found = key_lines(text)
        assert paths(tomllib.loads(text)) == set(found)
        lines = text.splitlines()
        for key, line in found.items():
            if isinstance(key[-1], str):
                assert key[-1] in lines[line - 1]


def test_four_and_five_quotes_at_the_end_of_a_string() -> None:
    assert key_lines('a = """x"""""\nb = 1\nc = \'\'\'y\'\'\'\'\nd = ""\ne = 2\n') == {
        ("a",): 1, ("b",): 2, ("c",): 3, ("d",): 4, ("e",): 5,
    }  # fmt: skip
