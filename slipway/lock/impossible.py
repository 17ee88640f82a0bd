"""Turns uv's word that there is no solution into who pins what, and which pin to move."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508
from packaging.utils import canonicalize_name

from slipway.errors import InvalidInput, MissingError, Problem, UsageError
from slipway.lock.uv import NoSolution
from slipway.pins.model import Alias, Requirement, Selection

_DEPENDS = re.compile(r"([\w.\[\],+!-]+?)((?:[<>=!~]=?|===)[\w.+!*,<>=~-]+)? depends on ([\w.\[\],+!<>=~*-]+)")


@dataclass(frozen=True)
class Conflict:
    """`who` (name and version) wants something else than our pin says."""

    who: str
    wants: Pep508
    pin: Requirement


def requirements_of(selection: Selection, free: Collection[str] = ()) -> list[str]:
    """What uv is asked for: the pins and the aliases. Those named in `free` may take any version."""
    found = [str(replace(pin, version="*") if pin.name in free else pin) for pin in selection.wheels]
    return found + [f"{alias.name}=={alias.version}" for alias in selection.aliases if alias.name not in free]


def explain(selection: Selection, failure: NoSolution, ask: Callable[[Sequence[str]], Mapping[str, str]]) -> UsageError:
    """The error for pins that uv can't bring together: who pins what, and which pins to move where.

    uv names one conflict at a time. So the pin that it names is let go and uv is asked again, until the rest goes
    together: what it then takes is what the pins would have to say.

    ask: resolves requirements into versions by name, or raises NoSolution
    """
    found: list[Conflict] = []
    free: set[str] = set()
    solved: Mapping[str, str] = {}
    text = failure.text
    while not solved:
        new = [conflict for conflict in conflicts(selection, text) if conflict.pin.name not in free]
        if not new:
            break
        found += new
        free |= {name for conflict in new for name in _let_go(selection, conflict.pin)}
        try:
            solved = ask(requirements_of(selection, free))
        except NoSolution as again:
            text = again.text
        except MissingError:
            break
    problems = [*_missing(selection, failure.text)]
    problems += [_problem(selection, c, solved) for c in found if solved.get(c.pin.name) != c.pin.version]
    what = f"the pins of {selection.label} can't go together"
    said = Problem("uv", 0, plain(failure.text))
    return InvalidInput(what, [*dict.fromkeys(problems), said])


def plain(text: str) -> str:
    """uv's explanation in one line."""
    return re.sub(r"\s+", " ", text.partition("cause:")[2] or text).strip()


def _let_go(selection: Selection, pin: Requirement) -> tuple[str, ...]:
    """The names that become free with a pin: an alias goes with what it stands for."""
    alias = _alias_of(selection, pin.name)
    return (pin.name, alias.of) if alias else (pin.name,)


def _missing(selection: Selection, text: str) -> Iterator[Problem]:
    """Pins on versions that no index has."""
    said = plain(text)
    for pin in pinned(selection):
        wanted = re.escape(pin.name) + r"(\[[\w.,-]*\])?" + re.escape(pin.specifier)
        if re.search(rf"is no version of {wanted}(?![\w.+])", said):
            yield Problem("versions.toml", pin.line, f"there is no {pin.name} {pin.version} for this image", None)


def conflicts(selection: Selection, explanation: str) -> list[Conflict]:
    """The dependencies that uv's explanation names and a pin contradicts."""
    found: list[Conflict] = []
    pins = {pin.name: pin for pin in pinned(selection)}
    for who, version, wanted in _DEPENDS.findall(plain(explanation)):
        try:
            wants = Pep508(wanted.rstrip(".,"))
        except InvalidRequirement:
            continue
        pin = pins.get(canonicalize_name(wants.name))
        if pin is not None and pin.specifier.startswith("==") and pin.specifier[2:] not in wants.specifier:
            conflict = Conflict(_dependent(who, version, pins), wants, pin)
            if conflict not in found:
                found.append(conflict)
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


def _problem(selection: Selection, conflict: Conflict, solved: Mapping[str, str]) -> Problem:
    pin, wants = conflict.pin, conflict.wants
    alias = _alias_of(selection, pin.name)
    name, version = (alias.of, alias.version.partition("+")[0]) if alias else (pin.name, pin.version)
    exact = [specifier.version for specifier in wants.specifier if specifier.operator == "=="]
    target = solved.get(pin.name) or (exact[0] if exact else "")
    local = "" if alias else pin.version.partition("+")[2]
    if target and local and "+" not in target:
        target = f"{target}+{local}"
    move = f"move the pin {name} to {target or f'one that is {wants.specifier}'}"
    other = conflict.who.partition(" ")[0].partition("[")[0]
    what = f"{conflict.who} pins {wants}, but {name} is pinned to {version}"
    return Problem("versions.toml", pin.line, what, f"{move}, or take another {other}")


def _alias_of(selection: Selection, name: str) -> Alias | None:
    return next((alias for alias in selection.aliases if alias.name == name), None)
