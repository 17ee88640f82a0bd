"""Paragraphs of fields, as in dpkg's status file and apt's indexes: deb822(5)."""

from __future__ import annotations


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a control file, as written, without empty lines around them."""
    return [part.strip("\n") for part in text.split("\n\n") if part.strip()]


def field(paragraph: str, name: str) -> str:
    """The first line of a field's value, "" where the paragraph lacks it."""
    for line in paragraph.split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.lower() == name.lower():
            return value.strip()
    return ""


def sorted_paragraphs(text: str) -> str:
    """The same paragraphs by Package and Architecture: dpkg does not mind, and the order of installing is forgotten."""
    ordered = sorted(paragraphs(text), key=lambda part: (field(part, "Package"), field(part, "Architecture")))
    return "".join(f"{part}\n\n" for part in ordered)
