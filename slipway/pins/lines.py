"""Where a key stands in a TOML document.

tomllib says what a document holds and not where. This walks the source once and notes the line of every key, so
that a message about a value can name its line. It is not a second parser: it takes documents that tomllib has
accepted (TOML 1.0, https://toml.io/en/v1.0.0), and only has to skip values rightly.
"""

from __future__ import annotations

import tomllib

KeyPath = tuple[str | int, ...]

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of the first mention of every key; arrays count as keys 0, 1, … below theirs.

    `text` must be valid TOML: on anything else the answer is of no use, or ValueError is raised.
    """
    return _Walker(text).walk()


class _Walker:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.elements: dict[KeyPath, int] = {}
        self._counted_at = 0
        self._counted = 1

    def walk(self) -> dict[KeyPath, int]:
        prefix: KeyPath = ()
        while self._skip_blank():
            if self.text.startswith("[[", self.at):
                prefix = self._array_header()
            elif self.text[self.at] == "[":
                self.at += 1
                prefix = self._resolve(self._key())
                self._expect("]")
            else:
                self._pair(prefix)
        return self.lines

    def _line(self) -> int:
        """The line of the present position; positions only grow, so lines are counted once."""
        self._counted += self.text.count("\n", self._counted_at, self.at)
        self._counted_at = self.at
        return self._counted

    def _note(self, path: KeyPath, line: int) -> None:
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], line)

    def _resolve(self, key: list[str]) -> KeyPath:
        """The path a `[header]` means: a name of an array of tables stands for its last element."""
        path: KeyPath = ()
        for part in key:
            path = (*path, part)
            if path in self.elements:
                path = (*path, self.elements[path])
        self._note(path, self._line())
        return path

    def _array_header(self) -> KeyPath:
        self.at += 2
        key = self._key()
        parent = self._resolve(key[:-1]) if len(key) > 1 else ()
        array = (*parent, key[-1])
        self.elements[array] = self.elements.get(array, -1) + 1
        path = (*array, self.elements[array])
        self._note(path, self._line())
        self._expect("]")
        self._expect("]")
        return path

    def _pair(self, prefix: KeyPath) -> None:
        path = (*prefix, *self._key())
        self._note(path, self._line())
        self._expect("=")
        self._value(path)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip_spaces()
            if self._peek() in "\"'":
                parts.append(self._string())
            else:
                start = self.at
                while self._peek() in _BARE:
                    self.at += 1
                if start == self.at:
                    raise ValueError(f"no key at offset {start}")
                parts.append(self.text[start : self.at])
            self._skip_spaces()
            if self._peek() != ".":
                return parts
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        self._skip_spaces()
        first = self._peek()
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            while self._peek() not in ",]}#\n\0":
                self.at += 1

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self._skip_blank() and self.text[self.at] != "]":
            self._note((*path, index), self._line())
            self._value((*path, index))
            index += 1
            if self._skip_blank() and self.text[self.at] == ",":
                self.at += 1
        self._expect("]")

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self._skip_blank() and self.text[self.at] != "}":
            self._pair(path)
            if self._skip_blank() and self.text[self.at] == ",":
                self.at += 1
        self._expect("}")

    def _string(self) -> str:
        quote = self.text[self.at]
        start = self.at
        fence = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(fence)
        while not self.text.startswith(fence, self.at):
            if self.at >= len(self.text):
                raise ValueError(f"string at offset {start} has no end")
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(fence)
        if len(fence) == 3:  # up to two quotes may stand right before the closing ones
            while self._peek() == quote:
                self.at += 1
            return ""  # a key can't be a multi-line string, so nobody asks for its text
        value = tomllib.loads("v = " + self.text[start : self.at])["v"]
        return str(value)

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else "\0"

    def _expect(self, character: str) -> None:
        self._skip_spaces()
        if self._peek() != character:
            raise ValueError(f"expected {character!r} at offset {self.at}")
        self.at += 1

    def _skip_spaces(self) -> None:
        while self._peek() in " \t":
            self.at += 1

    def _skip_blank(self) -> bool:
        """Goes over white space, line ends and comments; False at the end of the text."""
        while True:
            while self._peek() in " \t\r\n":
                self.at += 1
            if self._peek() != "#":
                return self.at < len(self.text)
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
