"""Turns uv's word that there is no solution into who pins what, and which pin to move."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508
from packaging.utils import canonicalize_name

from slipway.errors import InvalidInput, Problem, UsageError
from slipway.pins.model import Alias, Requirement, Selection

_DEPENDS = re.compile(r"([\w.\[\],+!-]+?)((?:[<>=!~]=?|===)[\w.+!*,<>=~-]+)? depends on ([\w.\[\],+!<>=~*-]+)")


def impossible(selection: Selection, text: str) -> UsageError:
    """The error for pins that uv can't bring together; `text` is uv's explanation."""
    explanation = re.sub(r"\s+", " ", text.partition("cause:")[2] or text).strip()
    problems = [_problem(selection, *found) for found in conflicts(selection, explanation)]
    what = f"the pins of {selection.label} can't go together"
    if problems:
        return InvalidInput(what, [*problems, Problem("uv", 0, explanation)])
    return UsageError(what, where="versions.toml", why=explanation, remedy="move one of the pins that this names")


def conflicts(selection: Selection, explanation: str) -> list[tuple[str, Pep508, Requirement]]:
    """(who, what it wants, the pin that says otherwise) for each dependency that uv names and a pin contradicts."""
    found = []
    pins = {pin.name: pin for pin in pinned(selection)}
    for who, version, wanted in _DEPENDS.findall(explanation):
        try:
            wants = Pep508(wanted.rstrip(".,"))
        except InvalidRequirement:
            continue
        pin = pins.get(canonicalize_name(wants.name))
        if pin is not None and pin.specifier.startswith("==") and pin.specifier[2:] not in wants.specifier:
            entry = (_dependent(who, version, pins), wants, pin)
            if entry not in found:
                found.append(entry)
    return found


def pinned(selection: Selection) -> tuple[Requirement, ...]:
    """The pins, and each alias as the pin that it is to others; its line is that of what it stands for."""
    lines = {pin.name: pin.line for pin in selection.wheels}
    aliases = (Requirement(a.name, a.version, a.extras, lines.get(a.of, 0)) for a in selection.aliases)
    return (*selection.wheels, *aliases)


def _dependent(who: str, version: str, pins: dict[str, Requirement]) -> str:
    """uv says `ray[llm]>=2.60.0` where only one version is in question: the pin says which."""
    name = canonicalize_name(who.partition("[")[0])
    if name in pins and pins[name].version != "*":
        return f"{who} {pins[name].version}"
    return f"{who}{version}"


def _problem(selection: Selection, who: str, wants: Pep508, pin: Requirement) -> Problem:
    alias = _alias_of(selection, pin.name)
    name, version = (alias.of, alias.version.partition("+")[0]) if alias else (pin.name, pin.version)
    what = f"{who} pins {wants}, but {name} is pinned to {version}"
    exact = [specifier.version for specifier in wants.specifier if specifier.operator == "=="]
    move = f"move the pin {name} to {exact[0]}" if exact else f"move the pin {name} to one that is {wants.specifier}"
    other = who.partition(" ")[0].partition("[")[0]
    return Problem("versions.toml", pin.line, what, f"{move}, or take another {other}")


def _alias_of(selection: Selection, name: str) -> Alias | None:
    return next((alias for alias in selection.aliases if alias.name == name), None)
