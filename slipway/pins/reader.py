"""Reads TOML tables strictly: a wrong key or type is a Problem with its line, and reading goes on to find the rest."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from slipway.errors import InvalidInput, Problem
from slipway.pins.lines import KeyPath, key_lines

_TOML_LINE = re.compile(r" ?\(at line (\d+), column \d+\)| ?\(at end of document\)")
_TYPES = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "a table", float: "a number"}


@dataclass
class Document:
    """A TOML file being read. problems grows while it is; `finish` raises them all at once."""

    path: str
    text: str
    problems: list[Problem] = field(default_factory=list)

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """Only looked for when there is something to say: a lock is read often and is long."""
        return key_lines(self.text)

    def line(self, path: KeyPath) -> int:
        """The line of a key, else of the nearest table that holds it, else 0."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return 0

    def report(self, path: KeyPath, what: str, remedy: str | None = None) -> None:
        self.problems.append(Problem(self.path, self.line(path), what, remedy))

    def finish(self) -> None:
        if self.problems:
            count = len(self.problems)
            what = f"{self.path} has {count} problem{'s' if count > 1 else ''}"
            raise InvalidInput(what, sorted(set(self.problems), key=lambda p: (p.line, p.what)))


def read_toml(text: str, path: str) -> tuple[Document, Table]:
    """The document and its top table. Text that isn't TOML raises InvalidInput with the line."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _TOML_LINE.search(message)
        line = int(found[1]) if found and found[1] else max(1, len(text.splitlines())) if found else 0
        problem = Problem(path, line, f"not TOML: {_TOML_LINE.sub('', message).strip()}")
        raise InvalidInput(f"{path} can't be read", [problem]) from error
    document = Document(path, text)
    return document, Table(document, (), content)


def nearest(name: str, names: list[str]) -> str | None:
    """What somebody who wrote `name` may have meant."""
    close = difflib.get_close_matches(name, names, 1, 0.6)
    return f"did you mean {close[0]!r}?" if close else None


@dataclass
class Table:
    """One table of a document. Each getter notes the key as known; `done` reports the keys that nobody asked for."""

    document: Document
    path: KeyPath
    content: Mapping[str, Any]
    known: list[str] = field(default_factory=list)

    def at(self, key: str) -> KeyPath:
        return (*self.path, key)

    @property
    def title(self) -> str:
        """How messages name the table: its dotted path."""
        return ".".join(quoted(part) for part in self.path)

    def name(self, key: str) -> str:
        return f"{self.title}.{quoted(key)}" if self.path else quoted(key)

    def report(self, key: str, what: str, remedy: str | None = None) -> None:
        self.document.report(self.at(key), f"{self.name(key)}: {what}", remedy)

    def _get(self, key: str, kind: type, required: bool) -> Any:
        self.known.append(key)
        if key not in self.content:
            if required:
                where = f"[{self.title}]" if self.path else "the file"
                self.document.report(self.path, f"{where} lacks {key!r} ({_TYPES[kind]})")
            return None
        value = self.content[key]
        if type(value) is not kind:
            found = _TYPES.get(type(value), "a date or time")
            self.report(key, f"must be {_TYPES[kind]}, not {found}")
            return None
        return value

    def string(self, key: str, default: str | None = None, *, empty: bool = False) -> str:
        """A string; required unless there is a default; not empty unless `empty`."""
        value = self._get(key, str, default is None)
        if value is None:
            return default or ""
        if not value.strip() and not empty:
            self.report(key, "must not be empty")
        return str(value)

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """An integer of at least `least`; required unless there is a default."""
        value = self._get(key, int, default is None)
        if value is None:
            return default if default is not None else least
        if value < least:
            self.report(key, f"must be at least {least}, not {value}")
        return int(value)

    def boolean(self, key: str, default: bool = False) -> bool:
        value = self._get(key, bool, False)
        return default if value is None else bool(value)

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of non-empty strings, none of them twice."""
        value = self._get(key, list, default is None)
        if value is None:
            return default or ()
        good: list[str] = []
        for index, item in enumerate(value):
            at = (*self.at(key), index)
            if not isinstance(item, str) or not item.strip():
                self.document.report(at, f"{self.name(key)}: element {index + 1} must be a non-empty string")
            elif item in good:
                self.document.report(at, f"{self.name(key)}: {item!r} stands in it twice")
            else:
                good.append(item)
        return tuple(good)

    def table(self, key: str, *, required: bool = False) -> Table | None:
        value = self._get(key, dict, required)
        return None if value is None else Table(self.document, self.at(key), value)

    def tables(self, key: str, *, required: bool = False) -> Iterator[tuple[str, Table]]:
        """The tables of a table whose keys are free names."""
        outer = self.table(key, required=required)
        if outer is None:
            return
        for name in outer.content:
            inner = outer.table(name)
            if inner is not None:
                yield name, inner

    def rows(self, key: str) -> Iterator[Table]:
        """The elements of an array of tables; an absent array has none."""
        value = self._get(key, list, False)
        for index, item in enumerate(value or ()):
            if isinstance(item, dict):
                yield Table(self.document, (*self.at(key), index), item)
            else:
                self.document.report((*self.at(key), index), f"{self.name(key)}: element {index + 1} must be a table")

    def texts(self, key: str) -> dict[str, str]:
        """A table whose keys are free names and whose values are non-empty strings, such as reasons."""
        outer = self.table(key)
        return {} if outer is None else {name: outer.string(name) for name in outer.content}

    def done(self) -> None:
        """Reports every key that no getter asked for."""
        for key in self.content:
            if key not in self.known:
                close = nearest(key, [name for name in self.known if name not in self.content])
                remedy = close or nearest(key, self.known) or "known here: " + ", ".join(sorted(self.known))
                where = f"in [{self.title}]" if self.path else "at the top"
                self.document.report(self.at(key), f"unknown key {key!r} {where}", remedy)


def quoted(part: str | int) -> str:
    """A part of a dotted key, as TOML would have it written."""
    text = str(part)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else f'"{text}"'
