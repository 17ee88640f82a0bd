"""Reads a YAML file into plain data and remembers on which line everything stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from serve_app.errors import ConfigError, Problem


@dataclass(frozen=True)
class Document:
    """data: what the YAML says. lines: path (`applications[0].name`) → line, counted from 1. source: file name."""

    data: Any
    lines: dict[str, int] = field(default_factory=dict)
    source: str = "configuration"

    def line(self, path: str) -> int:
        """Line of a path, or of its nearest parent that has one; 0 when nothing is known."""
        while path and path not in self.lines:
            path = path.rpartition("[" if path.endswith("]") else ".")[0]
        return self.lines.get(path, 0)

    def refuse(self, problems: list[Problem]) -> None:
        """Raises ConfigError, with lines filled in and in file order, when there are problems."""
        if problems:
            placed = [Problem(p.path, p.what, p.remedy, p.line or self.line(p.path)) for p in problems]
            raise ConfigError(sorted(placed, key=lambda p: p.line), self.source)


def join(path: str, key: object) -> str:
    """The path of a member: `a.b` for a key, `a[3]` for a place in a list."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else str(key)


def unshared(data: Any) -> Any:
    """A copy in which nothing is shared: a YAML alias (`decode_config: *base`) is one object in two places, and what
    is filled in at one would stand at the other. (copy.deepcopy keeps such sharing.)"""
    if isinstance(data, dict):
        return {key: unshared(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [unshared(value) for value in data]
    return data


def read(path: Path) -> Document:
    """Reads a file. Raises ConfigError when it can't be read, is no YAML, or says a key twice."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem("", f"can't be read: {error}")], str(path)) from error
    return parse(text, str(path))


def parse(text: str, source: str = "configuration") -> Document:
    """The same from text. A key that stands twice in one mapping is refused: YAML would silently take the last."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigError([Problem("", f"is no valid YAML: {error.problem}", line=line)], source) from error
    except yaml.YAMLError as error:
        raise ConfigError([Problem("", f"is no valid YAML: {error}")], source) from error
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    if node is not None:
        _walk(node, "", lines, problems, [])
    document = Document(data, lines, source)
    document.refuse(problems)
    return document


def _walk(node: yaml.Node, path: str, lines: dict[str, int], problems: list[Problem], above: list[yaml.Node]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if any(node is parent for parent in above):
        problems.append(Problem(path, "refers to itself"))
        return
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _walk(child, join(path, index), lines, problems, [*above, node])
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in seen:
                problems.append(Problem(join(path, name), f"stands twice, first on line {seen[name]}", line=line))
                continue
            seen[name] = line
            lines.setdefault(join(path, name), line)
            _walk(value, join(path, name), lines, problems, [*above, node])
        for parent in merged:  # `<<: *base`: its members count where nothing of the own name stands
            _walk(parent, path, lines, problems, [*above, node])
