"""What an application overrides or reads of its libraries' insides, compared with the libraries' sources. Pure.

The list is serve_app/seams.json, beside the code that needs it: {"seams": [{"file", "name", "parameters"|"has"}]}.

    file        path below site-packages
    name        `function`, `Class`, `Class.method` or `Class.attribute` defined in that file
    parameters  the function's parameters in order, * and ** without their stars; left out where only the name counts
    has         parameters that it must have among others
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LIST = "serve_app/seams.json"


@dataclass(frozen=True)
class Seam:
    """One entry of the list."""

    file: str
    name: str
    parameters: tuple[str, ...] | None = None
    has: tuple[str, ...] = ()


def read(text: str) -> tuple[Seam, ...]:
    """Raises ValueError for a text that is no such list."""
    try:
        return tuple(
            Seam(
                str(entry["file"]),
                str(entry["name"]),
                tuple(entry["parameters"]) if "parameters" in entry else None,
                tuple(entry.get("has", ())),
            )
            for entry in json.loads(text)["seams"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a list of seams: {error}") from None


def faults(seams: Sequence[Seam], sources: Mapping[str, str]) -> list[tuple[Seam, str]]:
    """What does not fit, each with what is there instead. sources: text by path below site-packages."""
    trees: dict[str, ast.Module | str] = {}
    found = []
    for seam in seams:
        if seam.file not in trees:
            trees[seam.file] = _parsed(sources.get(seam.file))
        tree = trees[seam.file]
        fault = tree if isinstance(tree, str) else _fault(seam, tree)
        if fault:
            found.append((seam, fault))
    return found


def _parsed(source: str | None) -> ast.Module | str:
    if source is None:
        return "the file is not there"
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"the file can't be parsed ({error})"


def _fault(seam: Seam, tree: ast.Module) -> str:
    outer, _, inner = seam.name.partition(".")
    found = next((node for node in tree.body if getattr(node, "name", None) == outer), None)
    if found is None:
        return f"{outer} is not defined there"
    if inner:
        if not isinstance(found, ast.ClassDef):
            return f"{outer} is no class"
        defined = next((node for node in found.body if getattr(node, "name", None) == inner), None)
        if defined is None:
            return "" if _assigned(found, inner) and seam.parameters is None else f"{outer} has no {inner}"
        found = defined
    if seam.parameters is None and not seam.has:
        return ""
    if not isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return f"{seam.name} is no function"
    there = _parameters(found.args)
    if seam.parameters is not None and there != seam.parameters:
        return f"its parameters are ({', '.join(there)}), not ({', '.join(seam.parameters)})"
    missing = [name for name in seam.has if name not in there]
    return f"it has no parameter {', '.join(missing)}" if missing else ""


def _parameters(args: ast.arguments) -> tuple[str, ...]:
    """In the order of inspect.signature."""
    names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    names += [args.vararg.arg] if args.vararg else []
    names += [arg.arg for arg in args.kwonlyargs]
    names += [args.kwarg.arg] if args.kwarg else []
    return tuple(names)


def _assigned(cls: ast.ClassDef, name: str) -> bool:
    """Whether the class's body or one of its methods assigns this attribute."""
    for node in ast.walk(cls):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and target.id == name and node in cls.body:
                return True
            if isinstance(target, ast.Attribute) and target.attr == name and getattr(target.value, "id", "") == "self":
                return True
    return False
