"""slipway.inspect.tree: what an engine would show after unpacking all layers, and where its symlinks lead."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from slipway.inspect.index import LayerIndex, Member
from slipway.inspect.tree import Tree


def tree(*layers: Mapping[str, str | None]) -> Tree:
    """path → None (directory), "-> target" (symlink) or content."""
    return Tree([LayerIndex("", 0, tuple(member(*pair) for pair in layer.items()), (), {}) for layer in layers])


def member(path: str, value: str | None) -> Member:
    if value is None:
        return Member(path, "directory", 0o755)
    if value.startswith("-> "):
        return Member(path, "symlink", 0o777, target=value[3:])
    return Member(path, "file", size=len(value), sha256=value)


def shown(made: Tree) -> dict[str, str]:
    return {node.path: node.member.sha256 for node in made.files()}


def test_later_layers_win() -> None:
    made = tree({"a/x": "1", "a/y": "1"}, {"a/x": "2"})
    assert shown(made) == {"a/x": "2", "a/y": "1"}
    assert [(r.path, r.lower.layer, r.upper.layer) for r in made.replaced] == [("a/x", 0, 1)]


def test_whiteouts_hide_lower_layers_only() -> None:
    made = tree({"a/x": "1", "a/y/z": "1", "b": "1"}, {"a/.wh.y": "", "a/y": "new", ".wh.b": ""})
    assert shown(made) == {"a/x": "1", "a/y": "new"}
    assert sorted(w.path for w in made.whiteouts) == ["a/y", "b"]


def test_opaque_directories() -> None:
    made = tree({"a/x": "1", "a/y/z": "1"}, {"a": None, "a/.wh..wh..opq": "", "a/new": "2"})
    assert shown(made) == {"a/new": "2"}
    assert made.whiteouts[0].opaque


def test_opaque_root() -> None:
    assert shown(tree({"a/x": "1"}, {".wh..wh..opq": "", "b": "2"})) == {"b": "2"}


def test_a_file_over_a_directory_hides_it() -> None:
    assert shown(tree({"a/x": "1"}, {"a": "2"})) == {"a": "2"}


def test_merged_usr() -> None:
    made = tree({"lib": "-> usr/lib", "usr/lib/x": "1"}, {"lib/y": "2"})
    assert shown(made) == {"usr/lib/x": "1", "usr/lib/y": "2"}
    assert made.resolve("/lib/x") == "usr/lib/x"
    assert made.resolve("lib/../lib/./y") == "usr/lib/y"


def test_links_stay_inside() -> None:
    made = tree(
        {"etc/x": "1", "a/up": "-> ../../../../etc/x", "a/abs": "-> /etc/x", "a/loop": "-> loop", "a/d": "-> gone"}
    )
    assert made.resolve("a/up") == "etc/x"
    assert made.resolve("a/abs") == "etc/x"
    assert made.resolve("a/loop") is None
    assert made.resolve("a/d") is None
    assert made.resolve("etc/x/below") is None
    assert made.resolve("../etc/x") == "etc/x"


def test_missing_parents_are_made() -> None:
    made = tree({"a/b/c": "1"})
    node = made.nodes["a/b"]
    assert (node.member.kind, node.layer) == ("directory", -1)
    assert made.children("a") == ["a/b"]
    assert made.children("") == ["a"]


def test_a_member_below_a_file() -> None:
    made = tree({"a": "1"}, {"a/x": "2"})
    assert shown(made) == {"a/x": "2"}
    assert [(r.path, r.lower.member.kind, r.upper.member.kind) for r in made.replaced] == [("a", "file", "directory")]


NAMES = st.sampled_from(["a", "b", "lib", "usr", ".wh.a", ".wh..wh..opq"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.lists(st.sampled_from(["a", "b", "lib", "usr", "..", ".", ""]), max_size=4).map("/".join)
VALUES = st.one_of(st.none(), st.just("1"), TARGETS.map(lambda target: f"-> {target}"))
LAYERS = st.lists(st.dictionaries(PATHS, VALUES, max_size=6), max_size=4)


@given(LAYERS, st.lists(st.sampled_from(["a", "b", "lib", "usr", "..", "."]), max_size=5).map("/".join))
@example([{"a": "-> a/b"}], "a")
@example([{"a": "-> .."}, {"a/b": "1"}], "a/b")
def test_resolution_ends_at_a_real_path_or_nowhere(layers: list[dict[str, str | None]], path: str) -> None:
    made = tree(*layers)
    real = made.resolve(path)
    if real is not None:
        assert real == posixpath.normpath(f"/{real}").lstrip("/")
        assert made.nodes[real].member.kind != "symlink"
        assert made.resolve(real) == real
    for node in made:
        parent = node.path.rpartition("/")[0]
        assert made.nodes[parent].member.kind == "directory", "only directories have something below them"
